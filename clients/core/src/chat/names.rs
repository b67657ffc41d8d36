//! The names of the users whom views show, by their profiles.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wire::limits::PROFILES_MAX;
use wire::{ProfileOf, ProfilesResult, System, Title, UserId};

use super::item::{Content, Item};
use super::row::ChatRow;
use crate::Moment;

/// The time after which a shown profile is requested again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// The names that this client knows, for as long as it runs.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The app shows names.
    is_on: bool,
    /// The server has profiles. `None`: unknown, on this connection.
    has_profiles: Option<bool>,
    known: BTreeMap<UserId, Known>,
    /// Shown users whose name is unknown or old.
    wanted: BTreeSet<UserId>,
    is_asking: bool,
}

#[derive(Debug)]
struct Known {
    name: Option<Title>,
    at: Moment,
}

/// A request for names.
#[derive(Debug)]
pub(crate) enum Due {
    /// Whether the server has profiles.
    Features,
    Profiles(Vec<UserId>),
}

impl Names {
    pub(crate) fn show(&mut self) {
        self.is_on = true;
    }

    /// Takes whether the server has profiles. `None`: the connection has ended.
    pub(crate) fn set_has_profiles(&mut self, has_profiles: Option<bool>) {
        self.has_profiles = has_profiles;
    }

    /// The user's profile has changed.
    pub(crate) fn changed(&mut self, user: &UserId) {
        if self.is_on {
            self.wanted.insert(user.clone());
        }
    }

    /// Returns the known names of shown users. The others are requested.
    pub(crate) fn of<'a>(&mut self, users: impl Iterator<Item = &'a UserId>, now: Moment) -> BTreeMap<UserId, Title> {
        if !self.is_on {
            return BTreeMap::new();
        }
        let mut names = BTreeMap::new();
        for user in users.collect::<BTreeSet<_>>() {
            let known = self.known.get(user);
            if known.is_none_or(|known| known.at + FRESH <= now) {
                self.wanted.insert(user.clone());
            }
            names.extend(known.and_then(|known| known.name.clone()).map(|name| (user.clone(), name)));
        }
        names
    }

    /// Returns the next request. A further one waits for its reply, so that the users of several views share it.
    pub(crate) fn due(&mut self) -> Option<Due> {
        if self.wanted.is_empty() || self.is_asking {
            return None;
        }
        match self.has_profiles {
            None => {
                self.has_profiles = Some(false);
                Some(Due::Features)
            }
            Some(false) => None,
            Some(true) => {
                self.is_asking = true;
                Some(Due::Profiles(self.wanted.iter().take(PROFILES_MAX).cloned().collect()))
            }
        }
    }

    /// Takes the reply to a request for these users.
    pub(crate) fn came(&mut self, users: Vec<UserId>, result: ProfilesResult, at: Moment) {
        self.is_asking = false;
        let ProfilesResult { profiles, left } = result;
        let of_user = |profile| match profile {
            ProfileOf::User(profile) => Some((profile.user_id, profile.name)),
            ProfileOf::Conversation(_) => None,
        };
        let mut found: BTreeMap<_, _> = profiles.into_iter().filter_map(of_user).collect();
        for user in users.into_iter().filter(|user| !left.iter().any(|left| left == user.as_str())) {
            let name = found.remove(&user).flatten();
            self.wanted.remove(&user);
            self.known.insert(user, Known { name, at });
        }
    }

    /// The server has not replied. The next connection requests the names.
    pub(crate) fn lost(&mut self) {
        (self.is_asking, self.has_profiles) = (false, Some(false));
    }
}

/// Returns the users whom a row shows.
pub(super) fn of_row(row: &ChatRow) -> impl Iterator<Item = &UserId> {
    let line = row.line.iter();
    let of_line = line.flat_map(|line| std::iter::once(&line.sender_id).chain(line.event.iter().flat_map(of_event)));
    row.peer_id.iter().chain(&row.typing).chain(of_line)
}

/// Returns the users whom an item shows.
pub(super) fn of_item(item: &Item) -> Vec<&UserId> {
    match &item.content {
        Content::Day { .. } | Content::Unread { .. } | Content::Gap { .. } => vec![],
        Content::System { sender_id, event, .. } => std::iter::once(sender_id).chain(of_event(event)).collect(),
        Content::Unreadable { sender_id, .. } => vec![sender_id],
        Content::Message(message) => {
            let replied = message.reply.iter().filter_map(|reply| reply.message.as_ref());
            let others = message.mentions.iter().chain(replied.map(|message| &message.sender_id));
            std::iter::once(&message.sender_id).chain(others).collect()
        }
    }
}

fn of_event(event: &System) -> &[UserId] {
    match event {
        System::Created { members, .. } | System::MembersAdded { members } | System::MembersRemoved { members } => {
            members
        }
        System::RoleChanged { user_id, .. } | System::MemberRestricted { user_id, .. } => std::slice::from_ref(user_id),
        System::MemberLeft {} | System::InfoChanged { .. } | System::Later(_) => &[],
    }
}
