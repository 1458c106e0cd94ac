//! The NetworkAttachmentDefinitions, each read for the pools that it leads to.
//!
//! Kept by a watch, so that a deleted pod costs no request for its networks. A definition that
//! cannot be read is kept as such: it is not the same as one that is missing.

use std::collections::HashSet;

use ipgc_core::{
    definitions::{Definition, Definitions},
    ipam::{InvalidConfig, parse},
};

/// All definitions of the cluster.
#[derive(Debug, Default)]
pub struct NadIndex {
    known: Definitions,
    /// Those that the list has shown which is being read.
    listed: HashSet<Box<str>>,
}

impl NadIndex {
    /// Takes in a definition; `name` is `namespace/name`, `config` its `spec.config`, or why the
    /// object could not be read as far as that.
    pub fn apply(&mut self, name: &str, config: Result<Option<&str>, String>) {
        let definition = name.rsplit_once('/').map_or(name, |(_, name)| name);
        let sections = config
            .map_err(InvalidConfig::Json)
            .and_then(|config| parse(config.unwrap_or_default(), definition));
        let definition = match sections {
            Ok(sections) => Definition::Read(sections),
            Err(reason) => Definition::Invalid(reason),
        };
        if let Definition::Invalid(reason) = &definition {
            tracing::warn!(definition = name, %reason, "definition cannot be read");
        }
        self.listed.insert(name.into());
        self.known.insert(name.into(), definition);
    }

    /// Forgets a definition that was deleted.
    pub fn delete(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// A list begins.
    pub fn begin_list(&mut self) {
        self.listed.clear();
    }

    /// The list is complete: what was not in it is gone.
    pub fn end_list(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.known.retain(|name, _| listed.contains(name));
    }

    /// The definition `namespace/name`, if it exists.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.known.get(name)
    }

    /// All that exist, for whoever lists no more.
    #[must_use]
    pub fn into_all(self) -> Definitions {
        self.known
    }

    /// All that exist.
    #[must_use]
    pub fn all(&self) -> &Definitions {
        &self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEREABOUTS: &str =
        r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}"#;

    #[test]
    fn a_relist_drops_what_is_gone() {
        let mut index = NadIndex::default();
        index.begin_list();
        index.apply("d/a", Ok(Some(WHEREABOUTS)));
        index.apply("d/b", Ok(Some(WHEREABOUTS)));
        index.end_list();
        index.begin_list();
        index.apply("d/b", Ok(Some(WHEREABOUTS)));
        // The list begins again before it ended.
        index.begin_list();
        index.apply("d/a", Ok(Some(WHEREABOUTS)));
        index.end_list();
        assert!(index.get("d/a").is_some());
        assert!(index.get("d/b").is_none());
    }

    #[test]
    fn unreadable_is_not_missing() {
        let mut index = NadIndex::default();
        index.apply("d/a", Ok(None));
        index.apply("d/b", Ok(Some("{")));
        assert!(matches!(
            index.get("d/a"),
            Some(Definition::Invalid(InvalidConfig::Empty))
        ));
        assert!(matches!(index.get("d/b"), Some(Definition::Invalid(_))));
        assert!(index.get("d/c").is_none());
    }
}
