use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn mark(bit: u16) -> Mark {
    Mark { bit, failures: 0 }
}

fn marked(node: Node, marks: &[Mark]) -> Node {
    match node.marking(marks) {
        Some(change) => node.changed(&change),
        None => node,
    }
}

#[test]
fn a_bit_that_is_set_already_changes_nothing() {
    let node = marked(Node::empty(NodeId::group(0)), &[mark(7)]);
    assert_eq!(node.marking(&[mark(7)]), None);
    assert_eq!(node.marking(&[Mark { bit: 7, failures: 1 }]), None, "the first outcome counts");
    let change = node.marking(&[mark(7), mark(7_000), mark(7_000)]).unwrap();
    assert_eq!((change.fresh, change.words.len()), (1, 1), "only the word with a new bit is written");
}

#[test]
fn two_writers_meet_in_one_word_only() {
    let empty = Node::empty(NodeId::group(0));
    let (one, two, three) = ([mark(0)], [mark(255)], [mark(256)]);
    let changes = [&one, &two, &three].map(|marks| empty.marking(marks).unwrap());
    let after = empty.changed(&changes[0]);
    assert!(!after.is_as(&changes[1]), "the same word was written");
    assert!(after.is_as(&changes[2]));
}

#[test]
fn only_the_highest_level_has_no_parent() {
    let group = NodeId::group(7_168 * 3 + 5);
    assert_eq!(group.parent(), Some((NodeId { level: 1, index: 3 }, 5)));
    assert_eq!(NodeId { level: 1, index: 3 }.parent(), Some((NodeId { level: 2, index: 0 }, 3)));
    assert_eq!(NodeId { level: MAX_LEVEL, index: 0 }.parent(), None);
}

#[test]
fn a_run_from_the_first_bit_on_leads_whatever_its_length() {
    for length in [0, 1, 7, 8, 255, 256, 257, 300, 512, GROUP_SIZE - 1, GROUP_SIZE] {
        let marks: Vec<Mark> = (0..length).map(mark).collect();
        let node = marked(Node::empty(NodeId::group(0)), &marks);
        assert_eq!((node.leading(), node.first_clear(0)), (Some(length), length));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_node_is_a_set_of_bits(size in 0..=GROUP_SIZE, writes in prop::collection::vec(prop::collection::vec((0..GROUP_SIZE, any::<bool>()), 1..40), 1..20)) {
        let mut node = Node::empty(NodeId::group(3));
        let (mut done, mut failed) = (BTreeSet::new(), BTreeSet::new());
        for write in writes {
            let mut fresh = 0;
            for (bit, fails) in &write {
                if done.insert(*bit) {
                    fresh += 1;
                    if *fails {
                        failed.insert(*bit);
                    }
                }
            }
            let marks: Vec<Mark> = write.iter().map(|(bit, fails)| Mark { bit: *bit, failures: u64::from(*fails) }).collect();
            let change = node.marking(&marks);
            prop_assert_eq!(change.as_ref().map_or(0, |change| change.fresh), fresh);
            node = marked(node, &marks);
            prop_assert_eq!(usize::from(node.count()), done.len());
            prop_assert_eq!(node.failures, failed.len() as u64);
        }
        for bit in 0..GROUP_SIZE {
            prop_assert_eq!(node.is_done(bit), done.contains(&bit));
            prop_assert_eq!(node.has_failed(bit), failed.contains(&bit));
        }
        for (which, expected) in [
            (Which::Succeeded, done.difference(&failed).copied().collect::<BTreeSet<u16>>()),
            (Which::Missing, (0..GROUP_SIZE).filter(|bit| !done.contains(bit)).collect()),
            (Which::Failed, failed),
        ] {
            prop_assert!(node.positions(which, size).eq(expected.range(..size).copied()), "{which:?}");
        }
    }

    #[test]
    fn only_leading_bits_lead(bits in prop::collection::btree_set(0..40_u16, 0..40)) {
        let marks: Vec<Mark> = bits.iter().copied().map(mark).collect();
        let node = marked(Node::empty(NodeId::group(0)), &marks);
        let length = u16::try_from(bits.len()).unwrap();
        let leads = bits.iter().copied().eq(0..length);
        prop_assert_eq!(node.leading(), leads.then_some(length));
    }
}
