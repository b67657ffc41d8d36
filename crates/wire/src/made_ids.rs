//! The ids of conversations, which follow from who makes them.

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};

use crate::{ClientMsgId, ConversationId, ReportId, ReportRequest, UserId};

/// Returns the id of a direct conversation, or of a note to self. Either side computes the same id, so the first
/// message needs no lookup, and concurrent first messages meet in the same conversation.
pub fn direct_conversation_id(one: &UserId, other: &UserId) -> ConversationId {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    made_id(ConversationId::DIRECT_PREFIX, first.as_str(), second.as_str())
}

/// Returns the id of the group that this user creates with this idempotency key. A repetition gets the same id.
pub fn group_id(creator: &UserId, client_msg_id: &ClientMsgId) -> ConversationId {
    made_id(ConversationId::GROUP_PREFIX, creator.as_str(), client_msg_id.as_str())
}

/// The channel that this user makes with it.
pub fn channel_id(creator: &UserId, client_msg_id: &ClientMsgId) -> ConversationId {
    made_id(ConversationId::CHANNEL_PREFIX, creator.as_str(), client_msg_id.as_str())
}

/// The report of this user on that conversation, those entries and that user. A repetition gets the same id.
pub fn report_id(reporter: &UserId, request: &ReportRequest) -> ReportId {
    let ReportRequest { conversation_id, seqs, user_id, .. } = request;
    let seqs: Vec<String> = seqs.iter().map(ToString::to_string).collect();
    let conversation = conversation_id.as_ref().map_or("", ConversationId::as_str);
    let user = user_id.as_ref().map_or("", UserId::as_str);
    // No id has a space.
    let about = format!("{conversation} {} {user}", seqs.join(","));
    ReportId::made(made_text("r_", reporter.as_str(), &about))
}

#[expect(clippy::expect_used, reason = "lower-case Base32 is an id")]
fn made_id(prefix: &str, one: &str, other: &str) -> ConversationId {
    ConversationId::parse(&made_text(prefix, one, other)).expect("it is an id")
}

fn made_text(prefix: &str, one: &str, other: &str) -> String {
    let digest = Sha256::new().chain_update(one).chain_update([0]).chain_update(other).finalize();
    let bytes: Vec<u8> = digest.into_iter().take(20).collect();
    format!("{prefix}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    #[test]
    fn a_direct_conversation_has_one_id_from_both_sides() {
        let id = direct_conversation_id(&user("alice"), &user("bob"));
        assert_eq!(id, direct_conversation_id(&user("bob"), &user("alice")));
        // Stored ids must survive every later version: this one is pinned.
        assert_eq!(id.as_str(), "dm_cqnezuscwz7if3puu6f3iggubjvdq4gs");
    }

    #[test]
    fn a_group_that_is_made_again_has_the_same_id_and_nobody_elses() {
        let key = |id| ClientMsgId::parse(id).unwrap();
        let id = group_id(&user("alice"), &key("c1"));
        assert!(id.is_group() && !direct_conversation_id(&user("alice"), &user("bob")).has_members());
        assert_eq!(id, group_id(&user("alice"), &key("c1")));
        assert_ne!(id, group_id(&user("alice"), &key("c2")));
        assert_ne!(id, group_id(&user("bob"), &key("c1")));
        // Stored ids must survive every later version: this one is pinned.
        assert_eq!(id.as_str(), "gr_55o74ib2hlfhd75gvnl7lyzdv7s5mg5f");
        let channel = channel_id(&user("alice"), &key("c1"));
        assert!(channel.is_channel() && !channel.is_group() && !id.is_channel());
    }

    proptest! {
        #[test]
        fn different_pairs_have_different_conversations(a in "[!-~]{1,20}", b in "[!-~]{1,20}", c in "[!-~]{1,20}", d in "[!-~]{1,20}") {
            let mut one = [a.clone(), b.clone()];
            let mut two = [c.clone(), d.clone()];
            one.sort();
            two.sort();
            let same = direct_conversation_id(&user(&a), &user(&b)) == direct_conversation_id(&user(&c), &user(&d));
            prop_assert_eq!(one == two, same);
        }
    }
}
