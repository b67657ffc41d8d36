//! Who does what at once.

/// Something that a user's phone does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Send {
        from: &'static str,
        to: &'static str,
        id: &'static str,
    },
    /// Connects, and drains until nothing is pending.
    Connect(&'static str),
    Disconnect(&'static str),
    /// Drains until nothing is pending.
    Drain(&'static str),
    Ack(&'static str, u64),
    Read(&'static str, u64),
    /// The user gives their message another text: the id.
    Edit {
        user: &'static str,
        seq: u64,
        id: &'static str,
    },
    Delete {
        user: &'static str,
        seq: u64,
        id: &'static str,
    },
    /// With the id.
    React {
        user: &'static str,
        seq: u64,
        id: &'static str,
    },
    /// The user blocks the other.
    Block(&'static str, &'static str),
    /// An operator closes the user's sockets, and lets nobody connect as them.
    Suspend(&'static str),
    /// An operator closes the user's sockets.
    Kick(&'static str),
    /// The user's phone registers this token.
    Register(&'static str, &'static str),
    /// The mapping hands on what was written to the user's rows since it last did.
    Notify(&'static str),
    /// The user makes the group, with these members.
    Create(&'static str, &'static [&'static str]),
    /// The user makes a channel that everybody may join and post in, with these members.
    Channel(&'static str, &'static [&'static str]),
    Join(&'static str),
    /// The user looks at the channel: watches it, and then reads its history.
    Watch(&'static str),
    /// The user writes the id into the group.
    Say(&'static str, &'static str),
    /// The user adds or removes somebody, or says what they may.
    Manage {
        user: &'static str,
        action: &'static str,
        whom: &'static str,
        id: &'static str,
    },
    /// The mapping hands on which groups moved since it last did.
    Fanout,
    /// The same, in a group, by a process that dies when it has written: nobody is brought along.
    Dying(&'static Doing),
    /// The queue hands on a service's messages to bob, in this order.
    Publish(&'static [&'static str]),
    /// The service tells bob the id, and has its answer.
    Tell(&'static str),
    /// An operator deletes what is there.
    Moderate(u64),
    /// The user opens the chat list.
    Look(&'static str),
    /// The user reads the whole history, and says so.
    Catch(&'static str),
    /// The user uploads a picture for bob, or for the group that there is.
    Upload(&'static str),
    /// The user sends the first picture that was uploaded to whom it is for.
    Carry {
        from: &'static str,
        id: &'static str,
    },
    /// The user puts it once more, by the URL that they have.
    Put(&'static str),
    /// The user asks where it is.
    Fetch(&'static str),
    /// The TTL removes what no message carries.
    Expire,
    /// The mapping hands on which media rows are gone.
    Sweep,
}

impl Doing {
    pub(crate) fn user(self) -> &'static str {
        if let Self::Dying(doing) = self {
            return doing.user();
        }
        if let Self::Publish(_) | Self::Tell(_) = self {
            return SERVICE;
        }
        let (Self::Send { from: user, .. }
        | Self::Edit { user, .. }
        | Self::Delete { user, .. }
        | Self::React { user, .. }
        | Self::Connect(user)
        | Self::Disconnect(user)
        | Self::Drain(user)
        | Self::Ack(user, _)
        | Self::Read(user, _)
        | Self::Block(user, _)
        | Self::Suspend(user)
        | Self::Register(user, _)
        | Self::Notify(user)
        | Self::Create(user, _)
        | Self::Channel(user, _)
        | Self::Join(user)
        | Self::Watch(user)
        | Self::Say(user, _)
        | Self::Manage { user, .. }
        | Self::Look(user)
        | Self::Catch(user)
        | Self::Upload(user)
        | Self::Carry { from: user, .. }
        | Self::Put(user)
        | Self::Fetch(user)
        | Self::Kick(user)) = self
        else {
            return "stream";
        };
        user
    }

    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Send { .. } => "send",
            Self::Edit { .. } => "edit",
            Self::Delete { .. } => "delete",
            Self::React { .. } => "react",
            Self::Connect(_) => "connect",
            Self::Disconnect(_) => "disconnect",
            Self::Drain(_) => "drain",
            Self::Ack(..) => "ack",
            Self::Read(..) => "read",
            Self::Block(..) => "block",
            Self::Suspend(_) => "suspend",
            Self::Kick(_) => "kick",
            Self::Register(..) => "register",
            Self::Notify(_) => "notify",
            Self::Create(..) | Self::Channel(..) => "create",
            Self::Join(_) => "join",
            Self::Watch(_) => "watch",
            Self::Say(..) => "say",
            Self::Manage { action, .. } => action,
            Self::Fanout => "fanout",
            Self::Dying(doing) => doing.verb(),
            Self::Publish(_) => "publish",
            Self::Tell(_) => "tell",
            Self::Moderate(_) => "moderate",
            Self::Look(_) => "look",
            Self::Catch(_) => "catch",
            Self::Upload(_) => "upload",
            Self::Carry { .. } => "carry",
            Self::Put(_) => "put",
            Self::Fetch(_) => "fetch",
            Self::Expire => "expire",
            Self::Sweep => "sweep",
        }
    }
}

/// Who writes out of the queue.
pub(crate) const SERVICE: &str = "@orders";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// One after the other.
    pub(crate) before: &'static [Doing],
    /// At once.
    pub(crate) at_once: &'static [Doing],
    /// Whether the functions remember the connections from before.
    pub(crate) remembering: bool,
    /// How many connections a user may have.
    pub(crate) connections_max: usize,
}

impl Scenario {
    /// Whether it is about a group, by its name.
    pub(crate) fn is_of_group(&self) -> bool {
        self.name.starts_with("g-")
    }

    /// Whether it has more states than can be gone through.
    pub(crate) fn is_large(&self) -> bool {
        self.is_of_group() || self.at_once.len() > 2
    }

    /// Whether there are entries that nobody was told of.
    pub(crate) fn dies(&self) -> bool {
        self.before.iter().any(|doing| matches!(doing, Dying(_)))
    }
}

use Doing::{
    Ack, Block, Catch, Channel, Connect, Create, Disconnect, Drain, Dying, Expire, Fanout, Fetch, Join, Kick, Look,
    Moderate, Notify, Publish, Put, Read, Register, Say, Suspend, Sweep, Tell, Watch,
};

const fn to_bob(id: &'static str) -> Doing {
    Doing::Send { from: "alice", to: "bob", id }
}

const fn to_alice(id: &'static str) -> Doing {
    Doing::Send { from: "bob", to: "alice", id }
}

const fn edit(seq: u64, id: &'static str) -> Doing {
    Doing::Edit { user: "alice", seq, id }
}

const fn carry(id: &'static str) -> Doing {
    Doing::Carry { from: "alice", id }
}

const PICTURE: Doing = Doing::Upload("alice");
const BOBS: Doing = Doing::Upload("bob");

const fn bob_carries(id: &'static str) -> Doing {
    Doing::Carry { from: "bob", id }
}

const fn delete(seq: u64, id: &'static str) -> Doing {
    Doing::Delete { user: "alice", seq, id }
}

const fn react(user: &'static str, seq: u64, id: &'static str) -> Doing {
    Doing::React { user, seq, id }
}

const NOTE: Doing = Doing::Send { from: "alice", to: "alice", id: "n1" };
const ALICE: Doing = Connect("alice");
const BOB: Doing = Connect("bob");
const PHONE: Doing = Register("bob", "aa01");

const fn add(user: &'static str, whom: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action: "add", whom, id }
}

const fn remove(user: &'static str, whom: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action: "remove", whom, id }
}

const fn leave(user: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action: "leave", whom: user, id }
}

const fn role(user: &'static str, whom: &'static str, action: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action, whom, id }
}

const fn delete_of(user: &'static str, seq: u64, id: &'static str) -> Doing {
    Doing::Delete { user, seq, id }
}

/// An entry that nobody was told of.
const DIED: Doing = Dying(&Say("alice", "a1"));
const PAIR: Doing = Create("alice", &["bob"]);
const CHANNEL: Doing = Channel("alice", &["bob"]);
const THREE: Doing = Create("alice", &["bob", "carol"]);

const fn scenario(name: &'static str, before: &'static [Doing], at_once: &'static [Doing]) -> Scenario {
    Scenario { name, before, at_once, remembering: false, connections_max: 16 }
}

const fn remembering(name: &'static str, before: &'static [Doing], at_once: &'static [Doing]) -> Scenario {
    Scenario { name, before, at_once, remembering: true, connections_max: 16 }
}

/// Where a user may have one connection.
const fn one_each(name: &'static str, before: &'static [Doing], at_once: &'static [Doing]) -> Scenario {
    Scenario { name, before, at_once, remembering: false, connections_max: 1 }
}

pub(crate) const SCENARIOS: [Scenario; 137] = [
    scenario("send-connect", &[ALICE], &[to_bob("a1"), BOB]),
    scenario("send-connect-backlog", &[ALICE, to_bob("a1")], &[to_bob("a2"), BOB]),
    scenario("send-first", &[], &[to_bob("a1"), to_alice("b1")]),
    scenario("send-opposite", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), to_alice("b1")]),
    scenario("send-same", &[BOB], &[to_bob("a1"), to_bob("a2")]),
    scenario("send-retry", &[BOB], &[to_bob("a1"), to_bob("a1")]),
    scenario("send-ack", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Ack("bob", 1)]),
    scenario("send-read", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[to_bob("a3"), Read("bob", 1)]),
    scenario("send-read-all", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Read("bob", 1)]),
    scenario("send-drain", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Drain("bob")]),
    scenario("send-disconnect", &[BOB], &[to_bob("a1"), Disconnect("bob")]),
    scenario("send-reconnect", &[BOB], &[to_bob("a1"), Disconnect("bob"), BOB]),
    remembering("remembered-connect", &[ALICE, BOB], &[to_bob("a1"), BOB]),
    remembering("remembered-disconnect", &[BOB], &[to_bob("a1"), Disconnect("bob")]),
    remembering("remembered-reconnect", &[BOB], &[to_bob("a1"), Disconnect("bob"), BOB]),
    remembering("remembered-ack", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Ack("bob", 1)]),
    scenario("reply-ack", &[ALICE, BOB, to_bob("a1")], &[to_alice("b1"), Ack("bob", 1)]),
    scenario("reply-read", &[ALICE, BOB, to_bob("a1")], &[to_alice("b1"), Read("bob", 1)]),
    scenario("reply-drain", &[ALICE, to_bob("a1")], &[to_alice("b1"), Drain("bob")]),
    scenario("ack-read", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[Ack("bob", 2), Read("bob", 1)]),
    scenario("read-read", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[Read("bob", 1), Read("bob", 2)]),
    scenario(
        "ack-read-acked",
        &[ALICE, BOB, to_bob("a1"), to_bob("a2"), to_bob("a3"), Ack("bob", 1)],
        &[Ack("bob", 2), Read("bob", 1)],
    ),
    scenario(
        "read-read-acked",
        &[ALICE, BOB, to_bob("a1"), to_bob("a2"), to_bob("a3"), Ack("bob", 3)],
        &[Read("bob", 1), Read("bob", 2)],
    ),
    scenario("drain-ack", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[Drain("bob"), Ack("bob", 1)]),
    scenario("note-note", &[ALICE], &[NOTE, Doing::Send { from: "alice", to: "alice", id: "n2" }]),
    scenario("send-block", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Block("bob", "alice")]),
    scenario("block-block", &[ALICE, BOB], &[Block("alice", "bob"), Block("bob", "alice")]),
    scenario("send-suspend", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Suspend("bob")]),
    scenario("connect-suspend", &[BOB], &[BOB, Suspend("bob")]),
    one_each("connect-connect", &[ALICE, BOB], &[BOB, BOB]),
    one_each("send-connect-limit", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), BOB]),
    remembering("remembered-kick", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Kick("bob")]),
    scenario("notify-ack", &[BOB, PHONE, to_bob("a1")], &[to_bob("a2"), Ack("bob", 1), Notify("bob")]),
    scenario("notify-read", &[BOB, PHONE, to_bob("a1"), to_bob("a2")], &[Notify("bob"), Read("bob", 1)]),
    scenario("notify-read-all", &[BOB, PHONE, to_bob("a1")], &[Notify("bob"), Read("bob", 1), to_bob("a2")]),
    scenario("notify-register", &[PHONE, to_bob("a1")], &[Notify("bob"), Register("alice", "aa01")]),
    scenario("register-register", &[], &[Register("alice", "aa01"), PHONE]),
    scenario("register-another", &[PHONE], &[Register("bob", "aa02"), Register("alice", "aa01")]),
    scenario("edit-edit", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), edit(1, "e2")]),
    scenario("edit-delete", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), delete(1, "d1")]),
    scenario("edit-send", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), to_alice("b1")]),
    scenario("edit-drain", &[ALICE, to_bob("a1")], &[edit(1, "e1"), Drain("bob")]),
    scenario("delete-read", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[delete(2, "d1"), Read("bob", 2)]),
    scenario(
        "delete-read-part",
        &[ALICE, BOB, to_bob("a1"), to_bob("a2"), to_bob("a3"), Ack("bob", 3)],
        &[delete(2, "d1"), Read("bob", 2)],
    ),
    scenario("delete-drain", &[ALICE, to_bob("a1")], &[delete(1, "d1"), Drain("bob")]),
    scenario("delete-retry", &[ALICE, BOB, to_bob("a1")], &[delete(1, "d1"), to_bob("a1")]),
    scenario("delete-connect", &[ALICE, to_bob("a1")], &[delete(1, "d1"), BOB]),
    scenario("react-react", &[ALICE, BOB, to_bob("a1")], &[react("alice", 1, "r1"), react("bob", 1, "r1")]),
    scenario("edit-block", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), Block("bob", "alice")]),
    scenario("notify-delete", &[BOB, PHONE, to_bob("a1")], &[Notify("bob"), delete(1, "d1")]),
    scenario("g-send-fanout", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Fanout]),
    scenario("g-send-connect", &[PAIR, Fanout], &[Say("alice", "a1"), BOB]),
    scenario("g-send-fanout-connect", &[PAIR], &[Say("alice", "a1"), Fanout, BOB]),
    scenario("g-send-send", &[PAIR, Fanout, ALICE, BOB], &[Say("alice", "a1"), Say("bob", "b1")]),
    scenario("g-send-retry", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Say("alice", "a1")]),
    scenario("g-fanout-fanout", &[THREE, BOB, Say("alice", "a1")], &[Fanout, Fanout]),
    scenario("g-send-ack", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Ack("bob", 1)]),
    scenario("g-send-read", &[PAIR, BOB, Say("alice", "a1")], &[Say("alice", "a2"), Read("bob", 2)]),
    scenario("g-send-drain", &[PAIR, BOB, Say("alice", "a1")], &[Say("alice", "a2"), Drain("bob")]),
    scenario("g-read-above", &[PAIR, BOB], &[Say("alice", "a1"), Catch("bob")]),
    scenario("g-inbox-send", &[PAIR, BOB], &[Say("alice", "a1"), Look("bob")]),
    scenario("g-add-send", &[PAIR, Fanout], &[add("alice", "carol", "n1"), Say("bob", "b1")]),
    scenario("g-add-connect", &[PAIR, Fanout], &[add("alice", "carol", "n1"), Connect("carol")]),
    scenario("g-add-add", &[PAIR, Fanout], &[add("alice", "carol", "n1"), add("bob", "carol", "n2")]),
    scenario(
        "g-remove-send",
        &[THREE, Fanout, Connect("carol")],
        &[remove("alice", "carol", "x1"), Say("carol", "s1")],
    ),
    scenario("g-remove-other", &[THREE, Fanout, Connect("carol")], &[remove("alice", "carol", "x1"), Say("bob", "b1")]),
    scenario("g-remove-history", &[THREE, Fanout], &[remove("alice", "carol", "x1"), Catch("carol"), Say("bob", "b1")]),
    scenario("g-leave-rejoin", &[THREE, Fanout, leave("carol", "l1")], &[Fanout, add("alice", "carol", "n1")]),
    scenario("g-leave-add", &[THREE, Fanout, Connect("carol")], &[leave("carol", "l1"), add("alice", "carol", "n1")]),
    scenario(
        "g-demote-remove",
        &[THREE, Fanout, role("alice", "bob", "promote", "o1")],
        &[role("alice", "bob", "demote", "o2"), remove("bob", "carol", "x1")],
    ),
    scenario("g-create-retry", &[BOB], &[PAIR, PAIR]),
    scenario("g-delete-send", &[PAIR, BOB, Say("alice", "a1")], &[delete_of("alice", 2, "d1"), Say("bob", "b1")]),
    scenario(
        "g-delete-read",
        &[PAIR, BOB, Say("alice", "a1"), Say("alice", "a2")],
        &[delete_of("alice", 3, "d1"), Read("bob", 2)],
    ),
    scenario("g-delete-retry", &[PAIR, BOB, Say("alice", "a1")], &[delete_of("alice", 2, "d1"), Say("alice", "a1")]),
    scenario("g-react-react", &[PAIR, Say("alice", "a1")], &[react("alice", 2, "r1"), react("bob", 2, "r1")]),
    scenario("g-edit-delete", &[PAIR, BOB, Say("alice", "a1")], &[edit(2, "e1"), delete_of("alice", 2, "d1")]),
    scenario("g-edit-edit", &[PAIR, BOB, Say("alice", "a1")], &[edit(2, "e1"), edit(2, "e2")]),
    scenario("g-sender-unread", &[PAIR, BOB, Say("alice", "a1")], &[Say("bob", "b1"), Read("bob", 2)]),
    scenario("g-send-send-fanout", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Say("bob", "b1"), Fanout]),
    scenario("g-fanout", &[PAIR, DIED, Dying(&add("alice", "carol", "n1")), Dying(&Say("alice", "a2"))], &[Fanout]),
    scenario("g-fanout-twice", &[THREE, BOB, DIED, Dying(&Say("bob", "b1"))], &[Fanout, Fanout]),
    scenario("g-fanout-ack", &[PAIR, Fanout, BOB, DIED], &[Fanout, Ack("bob", 1)]),
    scenario("g-fanout-read", &[PAIR, BOB, Say("alice", "a0"), DIED], &[Fanout, Read("bob", 2)]),
    scenario("g-fanout-catch", &[PAIR, BOB, DIED, Dying(&Say("alice", "a2"))], &[Fanout, Catch("bob")]),
    scenario("g-fanout-inbox", &[PAIR, BOB, DIED], &[Fanout, Look("bob")]),
    scenario("g-fanout-connect", &[PAIR, DIED], &[Fanout, BOB]),
    scenario("g-fanout-send", &[PAIR, BOB, DIED], &[Fanout, Say("alice", "a2")]),
    scenario("g-fanout-retry", &[PAIR, BOB, DIED], &[Fanout, Say("alice", "a1")]),
    scenario("g-add-fanout-connect", &[PAIR, Fanout, Dying(&add("alice", "carol", "n1"))], &[Fanout, Connect("carol")]),
    scenario(
        "g-remove-fanout",
        &[THREE, Fanout, Connect("carol"), DIED, Dying(&remove("alice", "carol", "x1"))],
        &[Fanout, Say("bob", "b1")],
    ),
    scenario(
        "g-rejoin-fanout",
        &[THREE, Fanout, Dying(&leave("carol", "l1")), Dying(&add("alice", "carol", "n1"))],
        &[Fanout, Connect("carol")],
    ),
    scenario("g-delete-fanout", &[PAIR, BOB, DIED], &[delete_of("alice", 2, "d1"), Fanout]),
    scenario("media-send-send", &[ALICE, BOB, PICTURE], &[carry("a1"), carry("a2")]),
    scenario("media-send-retry", &[ALICE, BOB, PICTURE], &[carry("a1"), carry("a1")]),
    scenario("media-send-expire", &[ALICE, BOB, PICTURE], &[carry("a1"), Expire, Sweep]),
    scenario("media-expire-put", &[ALICE, PICTURE], &[Expire, Put("alice"), Sweep]),
    scenario("media-delete-send", &[ALICE, BOB, PICTURE, carry("a1")], &[delete(1, "d1"), carry("a2")]),
    scenario("media-delete-put", &[ALICE, BOB, PICTURE, carry("a1")], &[delete(1, "d1"), Put("alice"), Sweep]),
    scenario("media-delete-fetch", &[ALICE, BOB, PICTURE, carry("a1")], &[delete(1, "d1"), Fetch("bob"), Sweep]),
    scenario("media-moderate-fetch", &[ALICE, BOB, PICTURE, carry("a1")], &[Moderate(1), Fetch("bob"), Sweep]),
    scenario("media-moderate-delete", &[ALICE, BOB, PICTURE, carry("a1")], &[Moderate(1), delete(1, "d1"), Sweep]),
    scenario("g-media-expire", &[PAIR, BOB, PICTURE], &[carry("a1"), Expire, Sweep]),
    scenario("g-media-send-send", &[PAIR, BOB, PICTURE], &[carry("a1"), carry("a2")]),
    scenario("g-media-remove", &[PAIR, BOBS], &[bob_carries("b1"), remove("alice", "bob", "x1"), Sweep]),
    scenario("g-media-delete", &[PAIR, BOB, PICTURE, carry("a1")], &[delete(2, "d1"), Fetch("bob"), Sweep]),
    scenario("g-media-fanout", &[PAIR, BOB, PICTURE, Dying(&carry("a1"))], &[Fanout, Moderate(2), Sweep]),
    scenario("ch-media-expire", &[CHANNEL, PICTURE], &[carry("a1"), Expire, Sweep]),
    scenario("ch-media-leave", &[CHANNEL, BOBS], &[bob_carries("b1"), leave("bob", "l1"), Expire]),
    scenario("ch-media-delete", &[CHANNEL, PICTURE, carry("a1")], &[delete(2, "d1"), Fetch("bob"), Sweep]),
    scenario("ch-media-moderate", &[CHANNEL, PICTURE, carry("a1")], &[Moderate(2), Put("alice"), Sweep]),
    scenario("ch-post-watch", &[CHANNEL, BOB], &[Say("alice", "a1"), Watch("bob")]),
    scenario("ch-post-watch-fanout", &[CHANNEL, BOB], &[Say("alice", "a1"), Watch("bob"), Fanout]),
    scenario("ch-post-fanout", &[CHANNEL, BOB, Watch("bob")], &[Say("alice", "a1"), Fanout]),
    scenario("ch-fanout-fanout", &[CHANNEL, BOB, Watch("bob"), Say("alice", "a1")], &[Fanout, Fanout]),
    scenario(
        "ch-remove-fanout",
        &[CHANNEL, BOB, Watch("bob")],
        &[remove("alice", "bob", "x1"), Say("alice", "a1"), Fanout],
    ),
    scenario("ch-remove-watch", &[CHANNEL, BOB], &[remove("alice", "bob", "x1"), Watch("bob"), Say("alice", "a1")]),
    scenario("ch-remove-post", &[CHANNEL], &[remove("alice", "bob", "x1"), Say("bob", "b1")]),
    scenario("ch-leave-post", &[CHANNEL], &[leave("bob", "l1"), Say("bob", "b1")]),
    scenario("ch-leave-join", &[CHANNEL], &[leave("bob", "l1"), Join("bob")]),
    scenario("ch-join-post", &[CHANNEL], &[Join("carol"), Say("alice", "a1")]),
    scenario("ch-join-add", &[CHANNEL], &[Join("carol"), add("alice", "carol", "n1")]),
    scenario("ch-post-post", &[CHANNEL], &[Say("alice", "a1"), Say("bob", "b1")]),
    scenario("ch-post-read", &[CHANNEL, Say("alice", "a1")], &[Say("alice", "a2"), Read("bob", 2)]),
    scenario("ch-own-post-read", &[CHANNEL, Say("alice", "a1")], &[Say("bob", "b1"), Read("bob", 2)]),
    scenario("ch-delete-read", &[CHANNEL, Say("alice", "a1")], &[delete_of("alice", 2, "d1"), Read("bob", 2)]),
    scenario("s-publish-connect", &[], &[Publish(&["o1", "o2"]), BOB]),
    scenario("s-publish-ack", &[BOB, Publish(&["o1"])], &[Publish(&["o2"]), Ack("bob", 1)]),
    scenario("s-publish-read", &[BOB, Publish(&["o1", "o2"])], &[Publish(&["o3"]), Read("bob", 1)]),
    // The visibility of a batch has ended while it is still under way.
    scenario("s-publish-publish", &[BOB], &[Publish(&["o1", "o2"]), Publish(&["o1", "o2"])]),
    // The queue hands on what is behind a message only once that is stored: then the run that stored it may be at work still.
    scenario("s-publish-rest", &[BOB, Publish(&["o1"])], &[Publish(&["o1", "o2", "o3"]), Publish(&["o2", "o3"])]),
    scenario("s-publish-tell-ack", &[BOB, Publish(&["o1"])], &[Publish(&["o2"]), Tell("t1"), Ack("bob", 1)]),
    scenario("s-tell-retry", &[BOB], &[Tell("t1"), Tell("t1")]),
    scenario("s-moderate-publish", &[BOB, Publish(&["o1"])], &[Moderate(1), Publish(&["o2"])]),
    scenario("s-moderate-read", &[BOB, Publish(&["o1", "o2"])], &[Moderate(2), Read("bob", 1)]),
    scenario("moderate-delete", &[ALICE, BOB, to_bob("a1")], &[Moderate(1), delete(1, "d1")]),
    scenario("moderate-send", &[ALICE, BOB, to_bob("a1")], &[Moderate(1), to_alice("b1")]),
    scenario("send-send-drain", &[to_bob("a1")], &[to_bob("a2"), to_alice("b1"), Drain("bob")]),
];
