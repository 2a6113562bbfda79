//! Who sent a message, and what such a sender may say.
//!
//! The queue itself writes down who sent a message: SQS's attribute `SenderId` is the unique id of the user or role
//! that signed the request, and no field of the message can change it. So a policy says who may send, and this module
//! says what of it counts.

/// What a sender may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// The stack itself: it alone says rests, which speak for tasks that came before.
    Stack,
    /// A sender that may name items and events: its tasks ack what others wait for.
    Trusted,
    /// A sender of tasks and of nothing else.
    Stranger,
}

/// Who is who. Without a list, everybody who may send is of that kind: on a laptop all is its owner's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Senders {
    /// The principals of the stack itself.
    pub own: Option<Vec<String>>,
    /// The principals beside these that may name items and events.
    pub trusted: Option<Vec<String>>,
}

impl Senders {
    /// What the sender of a message may say, by the id that the queue wrote on it. A role's id comes with the name of a
    /// session, `AROA…:session`, which the user of the role may choose.
    pub fn who(&self, id: Option<&str>) -> Sender {
        let principal = id.map(|id| id.split_once(':').map_or(id, |(principal, _)| principal));
        let among = |list: &Option<Vec<String>>| match list {
            None => true,
            Some(list) => principal.is_some_and(|principal| list.iter().any(|known| known == principal)),
        };
        if among(&self.own) {
            Sender::Stack
        } else if among(&self.trusted) {
            Sender::Trusted
        } else {
            Sender::Stranger
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders() -> Senders {
        Senders { own: Some(vec!["AROAOWN".to_owned()]), trusted: Some(vec!["AROAAPI".to_owned()]) }
    }

    #[test]
    fn a_role_is_known_by_its_id_whatever_its_session_is_named() {
        for (id, sender) in [
            ("AROAOWN:register-task", Sender::Stack),
            ("AROAOWN", Sender::Stack),
            ("AROAAPI:api", Sender::Trusted),
            ("AIDAOTHER", Sender::Stranger),
            ("AIDAOTHER:AROAOWN", Sender::Stranger),
            ("AROAOWN2:register-task", Sender::Stranger),
            (":AROAOWN", Sender::Stranger),
            ("", Sender::Stranger),
        ] {
            assert_eq!(senders().who(Some(id)), sender, "{id}");
        }
        assert_eq!(senders().who(None), Sender::Stranger, "a queue that says nothing vouches for nobody");
    }

    #[test]
    fn without_a_list_everybody_is_of_that_kind() {
        assert_eq!(Senders::default().who(None), Sender::Stack);
        let any = Senders { trusted: None, ..senders() };
        assert_eq!((any.who(Some("AIDAOTHER")), any.who(None)), (Sender::Trusted, Sender::Trusted));
    }
}
