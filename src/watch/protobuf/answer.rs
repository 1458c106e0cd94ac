//! An answer that is no watch, read while it arrives.
//!
//! A page of pods is megabytes, and of a pod only a tenth counts: each is read as soon as it is whole, its JSON is
//! kept, and its bytes go. So the memory of one pod serves for all of a page.

use prost::{Message, decode_length_delimiter};

use super::messages::{ListMeta, MAGIC, Pod, Types, Unknown, Unreadable, to_json};

/// Where fields 1 and 2 of a message begin, if they have a length. Whoever writes protobuf for Kubernetes writes fields
/// in the order of their numbers.
const FIRST: u8 = 1 << 3 | 2;
const SECOND: u8 = 2 << 3 | 2;

/// Pods, a pod or a refusal.
#[derive(Default)]
pub struct Answer {
    /// What has come and is not read.
    bytes: Vec<u8>,
    /// `None`: it is no list, or has not said so yet.
    list: Option<List>,
}

impl Answer {
    /// Takes what comes next.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn push(&mut self, part: &[u8]) -> Result<(), Unreadable> {
        self.bytes.extend_from_slice(part);
        let mut rest = &*self.bytes;
        if self.list.is_none() {
            self.list = List::begin(&mut rest)?;
        }
        if let Some(list) = &mut self.list {
            list.read(&mut rest)?;
        }
        let read = self.bytes.len() - rest.len();
        self.bytes.drain(..read);
        Ok(())
    }

    /// All of it, as JSON.
    ///
    /// # Errors
    /// When it is nothing of what was asked for, or not all of it.
    pub fn finish(self) -> Result<Vec<u8>, Unreadable> {
        let Some(list) = self.list else {
            return to_json(self.bytes.into());
        };
        // What stands in an envelope behind the list says nothing, but has to be there.
        Unknown::decode(&*self.bytes)?;
        list.finish()
    }
}

struct List {
    /// How many of its bytes are not read.
    left: usize,
    metadata: Option<ListMeta>,
    /// All up to the last pod that was read.
    json: Vec<u8>,
}

impl List {
    /// `None`, and nothing is read, while it is not known to be a list.
    fn begin(bytes: &mut &[u8]) -> Result<Option<Self>, Unreadable> {
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            return Ok(None);
        };
        let Some((FIRST, types)) = field(&mut rest) else {
            return Ok(None);
        };
        let Types { api_version, kind } = Types::decode(types)?;
        if (&*api_version, &*kind) != ("v1", "PodList") {
            return Ok(None);
        }
        let Some((SECOND, left)) = field_head(&mut rest) else {
            return Ok(None);
        };
        *bytes = rest;
        Ok(Some(Self {
            left,
            metadata: None,
            json: br#"{"apiVersion":"v1","kind":"PodList","items":["#.to_vec(),
        }))
    }

    /// Reads all fields that have come whole.
    fn read(&mut self, bytes: &mut &[u8]) -> Result<(), Unreadable> {
        loop {
            let of_list = bytes.len().min(self.left);
            let mut rest = &bytes[..of_list];
            match field(&mut rest) {
                None => return Ok(()),
                Some((FIRST, metadata)) => self.metadata = Some(Message::decode(metadata)?),
                Some((SECOND, pod)) => {
                    let pod: Pod = Message::decode(pod)?;
                    if !self.json.ends_with(b"[") {
                        self.json.push(b',');
                    }
                    serde_json::to_writer(&mut self.json, &pod)?;
                }
                Some(_) => return Err(Unreadable::NoPods),
            }
            let read = of_list - rest.len();
            self.left -= read;
            *bytes = &bytes[read..];
        }
    }

    fn finish(mut self) -> Result<Vec<u8>, Unreadable> {
        if self.left > 0 {
            return Err(Unreadable::NoPods);
        }
        self.json.extend_from_slice(br#"],"metadata":"#);
        serde_json::to_writer(&mut self.json, &self.metadata)?;
        self.json.push(b'}');
        Ok(self.json)
    }
}

/// The field that stands first, if all of it has come.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let mut rest = *bytes;
    let (tag, length) = field_head(&mut rest)?;
    let (field, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((tag, field))
}

/// What it is, and how long.
fn field_head(bytes: &mut &[u8]) -> Option<(u8, usize)> {
    let (&tag, mut rest) = bytes.split_first()?;
    let length = decode_length_delimiter(&mut rest).ok()?;
    *bytes = rest;
    Some((tag, length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A field of so many bytes.
    fn field_of(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
        field.extend(bytes);
        field
    }

    #[test]
    fn no_more_than_a_pod_and_what_came_with_it_is_held() {
        const POD: usize = 2_000;
        const PART: usize = 300;
        let types = [field_of(1, b"v1"), field_of(2, b"PodList")].concat();
        // Of a pod only what nobody reads.
        let pod = field_of(2, &field_of(15, &[0; POD]));
        let list = field_of(2, &pod.repeat(50));
        let answer = [MAGIC.to_vec(), field_of(1, &types), list].concat();
        let mut read = Answer::default();
        for part in answer.chunks(PART) {
            read.push(part).unwrap();
            assert!(read.bytes.len() < pod.len() + PART, "{}", read.bytes.len());
        }
        assert!(read.bytes.is_empty());
        let json = String::from_utf8(read.finish().unwrap()).unwrap();
        assert_eq!(json.matches("{}").count(), 50, "{json}");
    }
}
