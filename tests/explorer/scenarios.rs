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
}

impl Doing {
    pub(crate) fn user(self) -> &'static str {
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
        | Self::Kick(user)) = self;
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
        }
    }
}

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

use Doing::{Ack, Block, Connect, Disconnect, Drain, Kick, Notify, Read, Register, Suspend};

const fn to_bob(id: &'static str) -> Doing {
    Doing::Send { from: "alice", to: "bob", id }
}

const fn to_alice(id: &'static str) -> Doing {
    Doing::Send { from: "bob", to: "alice", id }
}

const fn edit(seq: u64, id: &'static str) -> Doing {
    Doing::Edit { user: "alice", seq, id }
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

pub(crate) const SCENARIOS: [Scenario; 51] = [
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
    scenario("send-send-drain", &[to_bob("a1")], &[to_bob("a2"), to_alice("b1"), Drain("bob")]),
];
