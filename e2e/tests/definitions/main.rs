//! How definitions are read: by ipgc, and by multus, libcni and whereabouts themselves.
//!
//! ```text
//!  corpus    configurations of the kinds that definitions have
//!    │
//!  mutate    others made of them, seeded
//!    │
//!  reader    e2e/tools/whereabouts/definitions: whereabouts' own code, one answer for each
//!    │
//!  compare   the same pools, ranges and names; what differs on purpose has a rule that says why
//! ```
//!
//! A range that is read otherwise is a pool that nobody finds, or one that is taken for another's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod compare;
mod corpus;
mod mutate;
mod reader;

use std::{collections::BTreeMap, io::Write as _};

use compare::{Outcome, Rule, compare};
use ipgc::core::{
    address::reservation_names,
    ipam::parse,
    names::{KnownNetworks, Reading, split},
};
use rand::{SeedableRng as _, rngs::StdRng};
use reader::{Definition, Question, ask};

/// The name of each definition.
const NAME: &str = "net";
/// Mutants of each configuration.
const MUTANTS: usize = 250;
/// The same ones in each run.
const SEED: u64 = 20_261_126;

#[test]
fn definitions_are_read_as_whereabouts_reads_them() {
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut configs: Vec<String> = corpus::BASES
        .iter()
        .map(|base| (*base).to_owned())
        .collect();
    for base in corpus::BASES {
        configs.extend((0..MUTANTS).map(|_| mutate::mutate(base, &mut rng)));
    }
    let question = |config: &String| {
        let (name, config) = (NAME.to_owned(), config.clone());
        Question::Definition { name, config }
    };
    let questions: Vec<_> = configs.iter().map(question).collect();
    let answers: Vec<Definition> = ask(&questions).unwrap();
    assert_eq!(answers.len(), configs.len());
    let mut by_rule = BTreeMap::<Rule, usize>::new();
    let (mut read, mut refused, mut others) = (0, 0, 0);
    let mut mismatches = Vec::new();
    for (config, theirs) in configs.iter().zip(&answers) {
        match compare(theirs, &parse(config, NAME)) {
            Outcome::Read => read += 1,
            Outcome::Refused => refused += 1,
            Outcome::Other => others += 1,
            Outcome::By(rule) => *by_rule.entry(rule).or_default() += 1,
            Outcome::Mismatch(why) => mismatches.push(format!("{why}\n  {config}\n  {theirs:?}")),
        }
    }
    let bases = corpus::BASES.len();
    let mutants = configs.len() - bases;
    let differ = mismatches.len();
    let said = format!(
        "\ndefinitions: {bases} configurations, {mutants} mutants: {read} read alike, {others} of another IPAM, \
         {refused} refused by both, {differ} mismatches; on purpose: {by_rule:?}\n"
    );
    std::io::stderr().write_all(said.as_bytes()).unwrap();
    mismatches.truncate(20);
    assert!(mismatches.is_empty(), "{said}{}", mismatches.join("\n"));
    // A run that reads nothing would agree as well; and a rule that nothing needs is none.
    assert!(read > mutants / 4, "{said}");
    for rule in Rule::ALL {
        assert!(by_rule.contains_key(&rule), "{rule:?} is of no use: {said}");
    }
}

/// In each spelling that we look for is the one that whereabouts gives; and it tells the network and the address
/// again.
#[test]
fn reservations_are_named_as_whereabouts_names_them() {
    let addresses = [
        "10.0.0.5",
        "fd00::",
        "fd00::1",
        "fd00:0:0:10::5",
        "fd00:0:0:10:0:0:3:1",
        "2001:db8:5422:5::",
        "f1:fd00::1",
        "2001:db8:0:1:1:1:1:1",
        "::ffff:10.0.0.5",
        "1::",
        "0:1::",
    ];
    let networks = ["", "blue", "f1", "fd00", "fd00-1", "a.b"];
    let all = addresses
        .iter()
        .flat_map(|address| networks.iter().map(move |network| (*address, *network)));
    let all: Vec<_> = all.collect();
    let question = |(address, network): &(&str, &str)| {
        let (address, network) = ((*address).to_owned(), (*network).to_owned());
        Question::Reservation { address, network }
    };
    let questions: Vec<_> = all.iter().map(question).collect();
    let answers: Vec<reader::Reservation> = ask(&questions).unwrap();
    for ((address, network), theirs) in all.into_iter().zip(answers) {
        let address = address.parse::<std::net::IpAddr>().unwrap().to_canonical();
        let network = Some(network).filter(|network| !network.is_empty());
        let begins = theirs
            .name
            .starts_with(|first: char| first.is_ascii_alphanumeric());
        let ours = reservation_names(address, network);
        assert_eq!(
            ours.first() == Some(&theirs.name),
            begins,
            "{theirs:?} {ours:?}"
        );
        let mut known = KnownNetworks::default();
        known.add_pool(&[network.map(Into::into)].into(), None);
        let reading = split(&theirs.name, &known);
        assert_eq!(reading, Reading::One(network, address), "{theirs:?}");
    }
}
