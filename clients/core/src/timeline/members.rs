//! The members of a conversation, and their marks.

use std::collections::BTreeMap;

use wire::{Message, Seq, UserId};

use crate::group::{Turn, joiners, leavers, turn_of};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub delivered: Seq,
    pub read: Seq,
}

/// The members who have read a message, and those who have only received it: see
/// [`Timeline::readers`](super::Timeline::readers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readers<'a> {
    /// In the order of their ids.
    pub read: Vec<&'a UserId>,
    /// The members who have received the message and not read it, in the order of their ids.
    pub delivered: Vec<&'a UserId>,
}

/// The members, by the visible entries and the known marks.
#[derive(Debug, Default)]
pub(super) struct Members<'a>(BTreeMap<&'a UserId, Member>);

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    marks: Marks,
    /// The last entry with which they joined or left.
    turn: Option<(Seq, Turn)>,
}

impl Member {
    fn is_there(&self) -> bool {
        !matches!(self.turn, Some((_, Turn::Leaves)))
    }

    /// Returns the last entry before the join: a tick needs no mark of this member up to there.
    fn before_join(&self) -> Seq {
        match self.turn {
            Some((seq, Turn::Joins)) => seq.previous(),
            Some((_, Turn::Leaves)) | None => Seq::ZERO,
        }
    }
}

impl<'a> Members<'a> {
    /// By these entries, in their order.
    pub(super) fn new(marks: &'a BTreeMap<UserId, Marks>, entries: impl Iterator<Item = &'a Message>) -> Self {
        let known = |(user_id, marks): (&'a UserId, &Marks)| (user_id, Member { marks: *marks, turn: None });
        let mut members: BTreeMap<_, _> = marks.iter().map(known).collect();
        for entry in entries {
            for user_id in joiners(entry).iter().chain(leavers(entry)) {
                if let Some(turn) = turn_of(entry, user_id) {
                    members.entry(user_id).or_default().turn = Some((entry.seq, turn));
                }
            }
        }
        Self(members)
    }

    /// How far all other members have come, and have read; `None`: there are none.
    pub(super) fn all_others(&self, own: &UserId) -> Option<(Seq, Seq)> {
        let marks = self.others(own).map(|(_, member)| {
            let before = member.before_join();
            (member.marks.delivered.max(before), member.marks.read.max(before))
        });
        marks.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)))
    }

    /// Returns the other members who have this entry, without its author.
    pub(super) fn readers(&self, own: &UserId, seq: Seq, writer: Option<&UserId>) -> Readers<'a> {
        let mut readers = Readers::default();
        let was_there = |(user_id, member): &(&UserId, &Member)| writer != Some(*user_id) && member.before_join() < seq;
        for (user_id, member) in self.others(own).filter(was_there) {
            if member.marks.read >= seq {
                readers.read.push(user_id);
            } else if member.marks.delivered >= seq {
                readers.delivered.push(user_id);
            }
        }
        readers
    }

    /// Returns the other members without services: a service reads nothing, so no tick waits for its mark.
    fn others(&self, own: &UserId) -> impl Iterator<Item = (&'a UserId, &Member)> {
        let is_other = move |user_id: &UserId| user_id != own && !user_id.is_service();
        self.0.iter().filter(move |(user_id, member)| is_other(user_id) && member.is_there()).map(|(id, it)| (*id, it))
    }
}
