//! The digest that distinguishes a repeated request from another one with the same idempotency key.

use sha2::{Digest, Sha256};
use wire::{AllowedTo, Bytes, Carried, Emoji, HistoryFrom, Info, Look, Rings, UserId};

use crate::draft::{Change, Content, Draft, GroupChange, NewCommit, Rules};

impl Draft {
    /// Returns a digest of all that makes two entries the same: the kind, the target, and then the text. No kind has a space or a NUL.
    pub fn digest(&self) -> String {
        if let Some(written) = &self.rewritten_from {
            return written.clone();
        }
        let (about, said) = match &self.content {
            Content::Message { body, reply_to, .. } => (*reply_to, body.as_str()),
            Content::Sealed { epoch, silent, body, media, frank } => {
                // No id has a space, and no base64.
                let media = media.as_ref().map(|media| format!(" media {}", media.media_id())).unwrap_or_default();
                let frank = frank.as_ref().map(|frank| format!(" frank {}", frank.to_text())).unwrap_or_default();
                let about = format!("sealed {epoch} {silent}{media}{frank}\0");
                return hex(Sha256::new().chain_update(about).chain_update(body.as_slice()).finalize());
            }
            Content::Commit(commit) => return commit_digest(commit),
            Content::Erased(erased) => {
                let digest = Sha256::new().chain_update("erased ").chain_update(erased.user.as_str());
                return hex(digest.finalize());
            }
            Content::Group(change) => {
                let digest = Sha256::new().chain_update(group_change_text(change));
                // No name and no title has a line end.
                let keys = change.keys().map(|keys| format!("\n{}", commit_digest(keys))).unwrap_or_default();
                return hex(digest.chain_update(keys).finalize());
            }
            Content::Change { target, change: Change::Edit { body, .. } } => (Some(*target), body.as_str()),
            Content::Change { target, change: Change::Delete } => (Some(*target), ""),
            Content::Change { target, change: Change::React { emoji } } => {
                (Some(*target), emoji.as_ref().map_or("", Emoji::as_str))
            }
            Content::Change { target, change: Change::Pin { pinned } } => {
                (Some(*target), if *pinned { "on" } else { "off" })
            }
        };
        let about = about.map(|seq| format!(" {seq}")).unwrap_or_default();
        let digest = Sha256::new().chain_update(self.content.kind().as_str()).chain_update(about);
        let mut digest = digest.chain_update([0]).chain_update(said);
        // Entries of earlier versions have none, and keep their digests. No id and no media begins so.
        if let Some(data) = self.content.data() {
            digest = digest.chain_update(b"\0data ").chain_update(data);
        }
        if let Content::Message { mentions, media, .. } = &self.content {
            for id in mentions {
                digest = digest.chain_update([0]).chain_update(id.as_str());
            }
            // No id has a space.
            if let Some(media) = media.as_ref().and_then(|media| serde_json::to_vec(media).ok()) {
                digest = digest.chain_update(b"\0 ").chain_update(media);
            }
        }
        hex(digest.finalize())
    }
}

fn hex(digest: impl AsRef<[u8]>) -> String {
    data_encoding::HEXLOWER.encode(digest.as_ref())
}

/// Each part after its length, so that no two lists of parts are one text.
fn commit_digest(commit: &NewCommit) -> String {
    let NewCommit { epoch, commit, welcome, group_info, tree, removes } = commit;
    let mut digest = Sha256::new().chain_update(format!("commit {epoch}"));
    let here = |bytes: &Bytes| Some(Carried::Bytes(bytes.clone()));
    for part in [commit.clone(), welcome.clone(), here(group_info), Some(tree.clone())] {
        let (form, bytes) = match &part {
            None => (0, &[][..]),
            Some(Carried::Bytes(bytes)) => (0, bytes.as_slice()),
            Some(Carried::File { media_id, .. }) => (2, media_id.as_str().as_bytes()),
        };
        digest = digest.chain_update([form]).chain_update(bytes.len().to_be_bytes()).chain_update(bytes);
    }
    for user in removes {
        digest = digest.chain_update([1]).chain_update(user.as_str());
    }
    hex(digest.finalize())
}

/// All that makes two changes of a group the same. Words have no spaces, and a title comes last.
fn group_change_text(change: &GroupChange) -> String {
    let names = |members: &[UserId]| members.iter().map(UserId::as_str).collect::<Vec<_>>().join(" ");
    match change {
        GroupChange::Create { title, members, rules: Rules { history, post, add, join, rings }, encrypted, look } => {
            let [history, post, add] = [history.as_str(), post.as_str(), add.as_str()];
            let join = join.map(|join| format!("channel {} ", join.as_str())).unwrap_or_default();
            let encrypted = if *encrypted { "encrypted " } else { "" };
            let rings = if *rings == Rings::Off { "" } else { "rings " };
            let look = look_text(look);
            format!(
                "create {join}{rings}{encrypted}{history} {post} {add} {}\0{}{look}",
                names(members),
                title.as_str()
            )
        }
        GroupChange::Add { members, .. } => format!("add {}", names(members)),
        GroupChange::Remove { user, .. } => format!("remove {user}"),
        GroupChange::Leave => "leave".to_owned(),
        GroupChange::Return => "return".to_owned(),
        GroupChange::Role { user, role } => format!("role {user} {}", role.as_str()),
        GroupChange::Restrict { user, until } => {
            format!("restrict {user} {}", until.map_or_else(|| "-".to_owned(), |until| until.to_string()))
        }
        GroupChange::Update { info: Info { title, history, post, add, join, rings, look } } => {
            let [post, add] = [post, add].map(|who| who.map_or("-", AllowedTo::as_str));
            let title = title.as_ref().map(|title| format!("\0{}", title.as_str())).unwrap_or_default();
            let join = join.map(|join| format!(" {}", join.as_str())).unwrap_or_default();
            let rings = rings.map(|rings| format!(" rings {}", rings.as_str())).unwrap_or_default();
            let look = look_text(look);
            format!("update {} {post} {add}{join}{rings}{title}{look}", history.map_or("-", HistoryFrom::as_str))
        }
    }
}

/// A request without a look has the digest that earlier versions stored. No title has a line end.
fn look_text(look: &Look) -> String {
    if look.is_empty() { String::new() } else { format!("\nlook {}", serde_json::to_string(look).unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::{About, ClientMsgId, ConversationId, Kind, MediaId, Seq, Title};

    use super::*;

    fn draft(content: Content, key: &str) -> Draft {
        Draft {
            conversation_id: ConversationId::parse("gr_x").unwrap(),
            sender_id: UserId::parse("alice").unwrap(),
            client_msg_id: ClientMsgId::parse(key).unwrap(),
            content,
            rewritten_from: None,
        }
    }

    fn new_commit() -> impl Strategy<Value = NewCommit> {
        let bytes = || proptest::collection::vec(0_u8..2, 1..3).prop_map(Bytes::from);
        let file = "[ab]{1,2}".prop_map(|id| {
            let media_id = MediaId::parse(&id).unwrap();
            Carried::File { media_id, bytes: None, sha256: None }
        });
        let part = || prop_oneof![bytes().prop_map(Carried::Bytes), file.clone()];
        let removes = proptest::collection::vec("[ab]{1,2}".prop_map(|id| UserId::parse(&id).unwrap()), 0..3);
        let optional = || proptest::option::of(part());
        let parts = (0_u64..2, optional(), optional(), bytes(), part(), removes);
        parts.prop_map(|(epoch, commit, welcome, group_info, tree, removes)| NewCommit {
            epoch,
            commit,
            welcome,
            group_info,
            tree,
            removes,
        })
    }

    fn keys() -> impl Strategy<Value = Option<Box<NewCommit>>> {
        proptest::option::of(new_commit().prop_map(Box::new))
    }

    fn content() -> impl Strategy<Value = Content> {
        let user = || "[ab]{1,2}".prop_map(|id| UserId::parse(&id).unwrap());
        let seq = || (1_u64..3).prop_map(|seq| Seq::new(seq).unwrap());
        let message = (proptest::option::of(seq()), "[ab ]{0,3}", proptest::collection::vec(user(), 0..3));
        let message = message.prop_map(|(reply_to, body, mentions)| Content::Message {
            kind: Kind::Text,
            body,
            media: None,
            data: None,
            reply_to,
            mentions,
        });
        let edit = "[ab ]{0,2}".prop_map(|body| Change::Edit { body, data: None });
        let change = (seq(), prop_oneof![Just(Change::Delete), Just(Change::React { emoji: None }), edit]);
        let look = || {
            let about =
                prop_oneof![Just(None), Just(Some(None)), "[ab]".prop_map(|text| Some(About::parse(&text).ok()))];
            let data = prop_oneof![Just(None), Just(Some(None)), Just(Some(Some(wire::Data::default())))];
            (about, data).prop_map(|(about, data)| Box::new(Look { about, data }))
        };
        let group = prop_oneof![
            (user(), keys()).prop_map(|(user, keys)| GroupChange::Remove { user, keys }),
            (proptest::collection::vec(user(), 1..3), keys())
                .prop_map(|(members, keys)| GroupChange::Add { members, keys }),
            (any::<bool>(), look()).prop_map(|(encrypted, look)| GroupChange::Create {
                title: Title::parse("Trip").unwrap(),
                members: vec![],
                rules: Rules::default(),
                encrypted,
                look,
            }),
            look().prop_map(|look| GroupChange::Update { info: Info { look, ..Info::default() } }),
            Just(GroupChange::Leave),
        ];
        prop_oneof![
            message,
            change.prop_map(|(target, change)| Content::Change { target, change }),
            group.prop_map(Content::Group),
            new_commit().prop_map(|commit| Content::Commit(Box::new(commit))),
        ]
    }

    proptest! {
        #[test]
        fn equal_contents_and_no_others_have_the_same_digest(one in content(), other in content()) {
            prop_assert_eq!(draft(one.clone(), "k1").digest() == draft(other.clone(), "k2").digest(), one == other);
        }
    }
}
