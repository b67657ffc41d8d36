//! A group in words, and what the user does to one.

use std::collections::BTreeMap;

use pigeonhole_client::{
    AllowedTo, ConversationId, EVERYBODY, GroupMember, HistoryFrom, Info, JoinBy, Role, System, Title, UserId,
};

/// What can be done to groups.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Create {
        title: Title,
        members: Vec<UserId>,
    },
    /// A channel that everybody may join.
    Channel {
        title: Title,
        members: Vec<UserId>,
    },
    Add(Vec<UserId>),
    Remove(UserId),
    Leave,
    Role(UserId, Role),
    Title(Title),
}

/// What the user asks about the group on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Question {
    Members,
    /// Who has read the user's last message.
    Seen,
}

/// Who is in it, by id.
pub(crate) type Members = BTreeMap<UserId, Role>;

/// `"Sea trip" bob carol`, or `Trip bob carol`.
pub(crate) fn title_and_names(text: &str) -> Option<(Title, Vec<UserId>)> {
    let (title, names) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
    };
    Some((Title::parse(title.trim()).ok()?, names_in(names)?))
}

/// User ids, with spaces between them; `None`: one of them is none.
pub(crate) fn names_in(text: &str) -> Option<Vec<UserId>> {
    text.split_whitespace().map(|name| UserId::parse(name.strip_prefix('@').unwrap_or(name)).ok()).collect()
}

/// Whom a message names: `@bob`, of the members, or `@all`.
pub(crate) fn mentions(body: &str, members: &Members) -> Vec<UserId> {
    let mut found: Vec<UserId> = Vec::new();
    for word in body.split_whitespace() {
        let Some(name) = word.strip_prefix('@') else { continue };
        if name.trim_end_matches(|c: char| c.is_ascii_punctuation()) == "all" {
            return UserId::parse(EVERYBODY).into_iter().collect();
        }
        // An id may end in what also ends a sentence.
        let shorter = (1..=name.len()).rev().filter_map(|end| name.get(..end));
        let ends = shorter.take_while(|start| {
            name.get(start.len()..).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_punctuation()))
        });
        let known = { ends }.find_map(|start| members.keys().find(|id| **id == start));
        if let Some(id) = known.filter(|id| !found.contains(id)) {
            found.push(id.clone());
        }
    }
    found
}

/// What an entry makes of who is in the group.
pub(crate) fn apply(system: &System, sender: &UserId, members: &mut Members) {
    match system {
        System::Created { members: all, .. } => {
            members.extend(all.iter().map(|id| (id.clone(), Role::Member)));
            members.insert(sender.clone(), Role::Owner);
        }
        System::MembersAdded { members: added } => {
            members.extend(added.iter().map(|id| (id.clone(), Role::Member)));
        }
        System::MembersRemoved { members: removed } => members.retain(|id, _| !removed.contains(id)),
        System::MemberLeft {} => {
            members.remove(sender);
        }
        System::RoleChanged { user_id, role } => {
            if *role == Role::Owner {
                members.insert(sender.clone(), Role::Admin);
            }
            members.insert(user_id.clone(), *role);
        }
        System::InfoChanged { .. } | System::Later(_) => {}
    }
}

/// What happened to a conversation, in words; `None`: this version does not know.
pub(crate) fn happened(system: &System, id: &ConversationId, sender: &UserId, me: &UserId) -> Option<String> {
    let what = if id.is_channel() { "channel" } else { "group" };
    let who = |id: &UserId| if id == me { "you".to_owned() } else { id.to_string() };
    let all = |ids: &[UserId]| ids.iter().map(who).collect::<Vec<_>>().join(", ");
    let by = who(sender);
    Some(match system {
        System::Created { title, members } => {
            let others: Vec<UserId> = members.iter().filter(|id| *id != sender).cloned().collect();
            let with = if others.is_empty() { String::new() } else { format!(" with {}", all(&others)) };
            format!("{by} made the {what} “{}”{with}", title.as_str())
        }
        System::MembersAdded { members } => format!("{by} added {}", all(members)),
        System::MembersRemoved { members } => format!("{by} removed {}", all(members)),
        System::MemberLeft {} => format!("{by} left"),
        System::RoleChanged { user_id, role: Role::Owner } => {
            format!("{by} handed the {what} over to {}", who(user_id))
        }
        System::RoleChanged { user_id, role } => format!("{by} made {} {}", who(user_id), in_words(*role)),
        System::InfoChanged { title, history, post, add, join } => {
            let mut changes = Vec::new();
            changes.extend(title.as_ref().map(|title| format!("called the {what} “{}”", title.as_str())));
            changes.extend(post.map(|post| format!("let {} write", allowed(post))));
            changes.extend(add.map(|add| format!("let {} add members", allowed(add))));
            changes.extend(history.map(|history| match history {
                HistoryFrom::All => "shows all to those who join".to_owned(),
                HistoryFrom::Joined => "shows those who join what comes from then on".to_owned(),
            }));
            changes.extend(join.map(|join| match join {
                JoinBy::Open => "let everybody join".to_owned(),
                JoinBy::Admins => "let nobody join by themselves".to_owned(),
            }));
            format!("{by} {}", changes.join(", "))
        }
        System::Later(_) => return None,
    })
}

fn allowed(who: AllowedTo) -> &'static str {
    match who {
        AllowedTo::All => "everybody",
        AllowedTo::Admins => "admins",
    }
}

fn in_words(role: Role) -> &'static str {
    match role {
        Role::Owner => "the owner",
        Role::Admin => "an admin",
        Role::Member => "a member",
        Role::None => "nobody",
    }
}

/// Who is in it, in words.
pub(crate) fn members_in_words(members: &Members) -> String {
    let member = |(id, role): (&UserId, &Role)| match role {
        Role::Owner => format!("{id} (owner)"),
        Role::Admin => format!("{id} (admin)"),
        Role::Member | Role::None => id.to_string(),
    };
    members.iter().map(member).collect::<Vec<_>>().join(", ")
}

pub(crate) fn of_page(page: Vec<GroupMember>) -> impl Iterator<Item = (UserId, Role)> {
    page.into_iter().map(|member| (member.user_id, member.role))
}

/// Of a change of a group, what is asked of the server.
pub(crate) fn titled(title: Title) -> Info {
    Info { title: Some(title), ..Info::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::tests::user;

    fn members(ids: &[&str]) -> Members {
        ids.iter().map(|id| (user(id), Role::Member)).collect()
    }

    #[test]
    fn a_title_of_several_words_is_quoted() {
        let parsed = |text| title_and_names(text).map(|(title, names)| (title.as_str().to_owned(), names.len()));
        assert_eq!(parsed("Trip bob carol"), Some(("Trip".to_owned(), 2)));
        assert_eq!(parsed("\"Sea trip\" @bob"), Some(("Sea trip".to_owned(), 1)));
        assert_eq!(parsed("Trip"), Some(("Trip".to_owned(), 0)));
        for wrong in ["", "\"Sea trip bob", "Trip b\u{f6}b"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn members_are_mentioned_and_nobody_else() {
        let all = members(&["bob", "carol.", "dave"]);
        let named = |body: &str| mentions(body, &all).iter().map(UserId::to_string).collect::<Vec<_>>();
        assert_eq!(named("hi @bob, and @bob!"), ["bob"]);
        assert_eq!(named("@carol. @dave?"), ["carol.", "dave"]);
        assert!(named("@erin bob a@bob @bobby @").is_empty());
        assert_eq!(named("@bob and @all: lunch"), ["*"]);
    }

    #[test]
    fn what_happened_is_said_and_kept() {
        let (me, mut known) = (user("alice"), Members::new());
        let title = || Title::parse("Trip").unwrap();
        let group = ConversationId::parse("gr_t").unwrap();
        let role = |user_id: &str, role| System::RoleChanged { user_id: user(user_id), role };
        for (sender, system, text, expected) in [
            (
                "alice",
                System::Created { title: title(), members: vec![user("alice"), user("bob")] },
                "you made the group “Trip” with bob",
                "alice (owner), bob",
            ),
            (
                "bob",
                System::MembersAdded { members: vec![user("carol"), user("dave")] },
                "bob added carol, dave",
                "alice (owner), bob, carol, dave",
            ),
            ("alice", role("bob", Role::Admin), "you made bob an admin", "alice (owner), bob (admin), carol, dave"),
            (
                "bob",
                System::MembersRemoved { members: vec![user("dave")] },
                "bob removed dave",
                "alice (owner), bob (admin), carol",
            ),
            (
                "alice",
                role("carol", Role::Owner),
                "you handed the group over to carol",
                "alice (admin), bob (admin), carol (owner)",
            ),
            ("bob", System::MemberLeft {}, "bob left", "alice (admin), carol (owner)"),
            ("carol", titled(title()).into(), "carol called the group “Trip”", "alice (admin), carol (owner)"),
        ] {
            apply(&system, &user(sender), &mut known);
            assert_eq!(happened(&system, &group, &user(sender), &me).as_deref(), Some(text));
            assert_eq!(members_in_words(&known), expected);
        }
        let named: System = titled(title()).into();
        let channel = ConversationId::parse("ch_n").unwrap();
        assert_eq!(happened(&named, &channel, &me, &me).as_deref(), Some("you called the channel “Trip”"));
        let later = serde_json::from_str(r#"{"event":"picture.changed"}"#).unwrap();
        assert_eq!(happened(&later, &group, &me, &me), None);
    }
}
