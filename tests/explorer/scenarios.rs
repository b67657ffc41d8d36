//! The scenarios: what several users do concurrently. The comment of a scenario names what closes its race.

/// A step of a user, a stream, a queue or an operator.
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
    /// Writes a silent entry of an own kind, to the other or into the group; its data is the id.
    Own {
        from: &'static str,
        id: &'static str,
    },
    /// Writes the id, and says that everything up to `read` is read. Sends a `read` if the reply says that it is not.
    Fuse {
        from: &'static str,
        id: &'static str,
        read: u64,
    },
    /// Edits the user's message; the new text is the id.
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
    /// Pins the message, or takes the pin off.
    Pin {
        user: &'static str,
        seq: u64,
        id: &'static str,
        pinned: bool,
    },
    /// The user marks the conversation as unread.
    Mark(&'static str),
    /// The user blocks the other.
    Block(&'static str, &'static str),
    /// The user ends that block.
    Unblock(&'static str, &'static str),
    /// An operator suspends the user: closes the sockets, and refuses new ones.
    Suspend(&'static str),
    /// An operator erases the user, and the stream's mapping invokes `jobs` until that is done.
    Erase(&'static str),
    /// An operator closes the user's sockets.
    Kick(&'static str),
    /// The user has exceeded the limit on requests in other processes.
    Fill(&'static str),
    /// The user sends `ping`.
    Ask(&'static str),
    /// The user's phone registers this token.
    Register(&'static str, &'static str),
    /// The user's device publishes these key packages.
    Offer(&'static str, &'static [&'static str]),
    /// The user claims bob's keys, under this id. In a group, as a member's.
    Claim(&'static str, &'static str),
    /// The user's commit ends this epoch of the conversation with the other, or of the group. At epoch 0 the commit is a
    /// birth.
    Commit {
        user: &'static str,
        id: &'static str,
        epoch: u64,
        removes: &'static [&'static str],
    },
    /// The same, and the tree is the first upload.
    Refer {
        user: &'static str,
        id: &'static str,
        epoch: u64,
    },
    /// The user's birth ends this epoch.
    Reset {
        user: &'static str,
        id: &'static str,
        epoch: u64,
    },
    /// The user writes the id, sealed at this epoch.
    Seal {
        from: &'static str,
        id: &'static str,
        epoch: u64,
    },
    /// The stream's mapping invokes `notify` with the changes of the user's rows since the last time.
    Notify(&'static str),
    /// The stream's mapping invokes `publish` with the entries since the last time.
    Hear,
    /// The user creates the group, with these members.
    Create(&'static str, &'static [&'static str]),
    /// The user creates a channel, open to all for joins and posts, with these members.
    Channel(&'static str, &'static [&'static str]),
    Join(&'static str),
    /// The user subscribes to the channel, then reads its history.
    Watch(&'static str),
    /// The user writes the id into the group.
    Say(&'static str, &'static str),
    /// The user writes the id into the channel, and mentions bob.
    Mention(&'static str, &'static str),
    /// The user adds or removes a member, or changes a role. With an epoch, the request has the commit that ends it.
    Manage {
        user: &'static str,
        action: &'static str,
        whom: &'static str,
        id: &'static str,
        epoch: Option<u64>,
    },
    /// The stream's mapping invokes `fanout` with the heads that changed since the last time.
    Fanout,
    /// The same step in a group, by a process that stops after its commit: no member's row moves.
    Dying(&'static Doing),
    /// The queue delivers a service's messages for bob, in this order.
    Publish(&'static [&'static str]),
    /// The service sends bob the id through `admin`, and waits for the reply.
    Tell(&'static str),
    /// An operator deletes this entry.
    Moderate(u64),
    /// The user opens the chat list.
    Look(&'static str),
    /// The user watches bob's presence.
    See(&'static str),
    /// The user reads the whole history, then sends `read`.
    Catch(&'static str),
    /// The user uploads a picture for bob, or for the group if there is one. In a sealed conversation, its ciphertext.
    Upload(&'static str),
    /// The user sends the first uploaded picture. In a sealed conversation, at this epoch.
    Carry {
        from: &'static str,
        id: &'static str,
        epoch: Option<u64>,
    },
    /// The user puts the picture once more, with the old URL.
    Put(&'static str),
    /// The user sends `download` for the picture.
    Fetch(&'static str),
    /// The TTL removes media rows without a message.
    Expire,
    /// The stream's mapping invokes `media` with the deleted media rows.
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
        | Self::Own { from: user, .. }
        | Self::Fuse { from: user, .. }
        | Self::Edit { user, .. }
        | Self::Delete { user, .. }
        | Self::React { user, .. }
        | Self::Pin { user, .. }
        | Self::Connect(user)
        | Self::Disconnect(user)
        | Self::Drain(user)
        | Self::Ack(user, _)
        | Self::Read(user, _)
        | Self::Mark(user)
        | Self::Block(user, _)
        | Self::Unblock(user, _)
        | Self::Suspend(user)
        | Self::Erase(user)
        | Self::Fill(user)
        | Self::Ask(user)
        | Self::Register(user, _)
        | Self::Offer(user, _)
        | Self::Claim(user, _)
        | Self::Commit { user, .. }
        | Self::Refer { user, .. }
        | Self::Reset { user, .. }
        | Self::Seal { from: user, .. }
        | Self::Notify(user)
        | Self::Create(user, _)
        | Self::Channel(user, _)
        | Self::Join(user)
        | Self::Watch(user)
        | Self::Say(user, _)
        | Self::Mention(user, _)
        | Self::Manage { user, .. }
        | Self::Look(user)
        | Self::See(user)
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

    /// Returns the author and the id of the entry that it makes.
    pub(crate) fn entry(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Send { from, id, .. }
            | Self::Own { from, id }
            | Self::Fuse { from, id, .. }
            | Self::Carry { from, id, .. }
            | Self::Edit { user: from, id, .. }
            | Self::Delete { user: from, id, .. }
            | Self::React { user: from, id, .. }
            | Self::Pin { user: from, id, .. }
            | Self::Say(from, id)
            | Self::Mention(from, id)
            | Self::Commit { user: from, id, .. }
            | Self::Refer { user: from, id, .. }
            | Self::Reset { user: from, id, .. }
            | Self::Seal { from, id, .. }
            | Self::Manage { user: from, id, .. } => Some((from, id)),
            _ => None,
        }
    }

    /// Returns whether it begins another epoch.
    pub(crate) fn is_commit(&self) -> bool {
        matches!(
            self,
            Self::Commit { .. } | Self::Refer { .. } | Self::Reset { .. } | Self::Manage { epoch: Some(_), .. }
        )
    }

    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Send { .. } => "send",
            Self::Own { .. } => "own",
            Self::Edit { .. } => "edit",
            Self::Delete { .. } => "delete",
            Self::React { .. } => "react",
            Self::Pin { .. } => "pin",
            Self::Connect(_) => "connect",
            Self::Disconnect(_) => "disconnect",
            Self::Drain(_) => "drain",
            Self::Ack(..) => "ack",
            Self::Read(..) => "read",
            Self::Fuse { .. } => "fuse",
            Self::Mark(_) => "mark",
            Self::Block(..) => "block",
            Self::Unblock(..) => "unblock",
            Self::Suspend(_) => "suspend",
            Self::Erase(_) => "erase",
            Self::Fill(_) => "fill",
            Self::Ask(_) => "ask",
            Self::Kick(_) => "kick",
            Self::Register(..) => "register",
            Self::Offer(..) => "offer",
            Self::Claim(..) => "claim",
            Self::Commit { .. } | Self::Refer { .. } | Self::Reset { .. } => "commit",
            Self::Seal { .. } => "seal",
            Self::Notify(_) => "notify",
            Self::Hear => "hear",
            Self::Create(..) | Self::Channel(..) => "create",
            Self::Join(_) => "join",
            Self::Watch(_) => "watch",
            Self::Say(..) => "say",
            Self::Mention(..) => "mention",
            Self::Manage { action, .. } => action,
            Self::Fanout => "fanout",
            Self::Dying(doing) => doing.verb(),
            Self::Publish(_) => "publish",
            Self::Tell(_) => "tell",
            Self::Moderate(_) => "moderate",
            Self::Look(_) => "look",
            Self::See(_) => "presence",
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

/// The service whose messages the queue delivers.
pub(crate) const SERVICE: &str = "@orders";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Steps in sequence, before the concurrent ones.
    pub(crate) before: &'static [Doing],
    /// Concurrent steps.
    pub(crate) at_once: &'static [Doing],
    /// Whether the processes keep the connections that they remembered during `before`.
    pub(crate) remembering: bool,
    /// The limit of connections per user.
    pub(crate) connections_max: usize,
}

impl Scenario {
    /// Returns whether the scenario is about a group, by its name.
    pub(crate) fn is_of_group(&self) -> bool {
        self.name.starts_with("g-")
    }

    /// Returns whether every request is sampled.
    pub(crate) fn is_sampled(&self) -> bool {
        ["sample-crash", "suspend-connect"].contains(&self.name)
    }

    /// Returns whether users can see who is online.
    pub(crate) fn shows_presence(&self) -> bool {
        self.name.starts_with("presence-")
    }

    /// Returns whether texts and edits have data, which is the text.
    pub(crate) fn has_data(&self) -> bool {
        self.name.contains("-data")
    }

    /// Returns whether the team's filter judges what users write, by the scenario's name.
    pub(crate) fn is_filtered(&self) -> bool {
        self.name.contains("-hook-")
    }

    /// Returns the user who exceeded the limit in other processes.
    pub(crate) fn floods(&self) -> Option<&'static str> {
        self.before.iter().find_map(|doing| if let Fill(user) = doing { Some(*user) } else { None })
    }

    /// Returns whether a user is erased.
    pub(crate) fn erases(&self) -> bool {
        self.at_once.iter().any(|doing| matches!(doing, Erase(_)))
    }

    /// Returns whether the scenario has too many states to explore all of them.
    pub(crate) fn is_large(&self) -> bool {
        self.is_of_group() || self.at_once.len() > 2
    }

    /// Returns whether a process stopped after its commit in `before`.
    pub(crate) fn dies(&self) -> bool {
        self.before.iter().any(|doing| matches!(doing, Dying(_)))
    }
}

use Doing::{
    Ack, Ask, Block, Catch, Channel, Claim, Connect, Create, Disconnect, Drain, Dying, Erase, Expire, Fanout, Fetch,
    Fill, Hear, Join, Kick, Look, Mark, Mention, Moderate, Notify, Offer, Publish, Put, Read, Register, Say, See,
    Suspend, Sweep, Tell, Unblock, Watch,
};

/// Texts by which the filter judges.
pub(crate) const REFUSED: &str = "refused";
pub(crate) const REWRITTEN: &str = "rewritten";
pub(crate) const SLOW: &str = "slow";

const fn to_bob(id: &'static str) -> Doing {
    Doing::Send { from: "alice", to: "bob", id }
}

const fn to_alice(id: &'static str) -> Doing {
    Doing::Send { from: "bob", to: "alice", id }
}

const fn own(from: &'static str, id: &'static str) -> Doing {
    Doing::Own { from, id }
}

const fn fuse(from: &'static str, id: &'static str, read: u64) -> Doing {
    Doing::Fuse { from, id, read }
}

const fn edit(seq: u64, id: &'static str) -> Doing {
    Doing::Edit { user: "alice", seq, id }
}

const fn carry(id: &'static str) -> Doing {
    Doing::Carry { from: "alice", id, epoch: None }
}

const fn commit(user: &'static str, id: &'static str, epoch: u64) -> Doing {
    Doing::Commit { user, id, epoch, removes: &[] }
}

const fn seal(from: &'static str, id: &'static str, epoch: u64) -> Doing {
    Doing::Seal { from, id, epoch }
}

const fn naming(user: &'static str, id: &'static str, epoch: u64, removes: &'static [&'static str]) -> Doing {
    Doing::Commit { user, id, epoch, removes }
}

/// A commit of alice's whose tree is her first upload.
const fn refer(id: &'static str, epoch: u64) -> Doing {
    Doing::Refer { user: "alice", id, epoch }
}

const fn carry_at(id: &'static str, epoch: u64) -> Doing {
    Doing::Carry { from: "alice", id, epoch: Some(epoch) }
}

/// Adds the user, by a commit that ends this epoch.
const fn add_at(user: &'static str, whom: &'static str, id: &'static str, epoch: u64) -> Doing {
    Doing::Manage { user, action: "add", whom, id, epoch: Some(epoch) }
}

/// Removes the user, by a commit that ends this epoch.
const fn remove_at(user: &'static str, whom: &'static str, id: &'static str, epoch: u64) -> Doing {
    Doing::Manage { user, action: "remove", whom, id, epoch: Some(epoch) }
}

/// A birth at a later epoch.
const fn reset(user: &'static str, id: &'static str, epoch: u64) -> Doing {
    Doing::Reset { user, id, epoch }
}

const OFFER: Doing = Offer("bob", &["p1", "p2"]);
const SEALED: Doing = seal("alice", "m0", 1);
const BIRTH: Doing = commit("alice", "k0", 0);

const PICTURE: Doing = Doing::Upload("alice");
const BOBS: Doing = Doing::Upload("bob");

const fn bob_carries(id: &'static str) -> Doing {
    Doing::Carry { from: "bob", id, epoch: None }
}

const fn delete(seq: u64, id: &'static str) -> Doing {
    Doing::Delete { user: "alice", seq, id }
}

const fn edit_of(user: &'static str, seq: u64, id: &'static str) -> Doing {
    Doing::Edit { user, seq, id }
}

const fn react(user: &'static str, seq: u64, id: &'static str) -> Doing {
    Doing::React { user, seq, id }
}

const fn pin(user: &'static str, seq: u64, id: &'static str, pinned: bool) -> Doing {
    Doing::Pin { user, seq, id, pinned }
}

const NOTE: Doing = Doing::Send { from: "alice", to: "alice", id: "n1" };
const ALICE: Doing = Connect("alice");
const BOB: Doing = Connect("bob");
const PHONE: Doing = Register("bob", "aa01");

const fn add(user: &'static str, whom: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action: "add", whom, id, epoch: None }
}

const fn remove(user: &'static str, whom: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action: "remove", whom, id, epoch: None }
}

const fn leave(user: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action: "leave", whom: user, id, epoch: None }
}

const fn role(user: &'static str, whom: &'static str, action: &'static str, id: &'static str) -> Doing {
    Doing::Manage { user, action, whom, id, epoch: None }
}

const fn delete_of(user: &'static str, seq: u64, id: &'static str) -> Doing {
    Doing::Delete { user, seq, id }
}

/// An entry whose process stopped after its commit.
const DIED: Doing = Dying(&Say("alice", "a1"));
const SAID: Doing = Say("alice", "a1");
const PAIR: Doing = Create("alice", &["bob"]);
const CHANNEL: Doing = Channel("alice", &["bob"]);
const THREE: Doing = Create("alice", &["bob", "carol"]);

const fn scenario(name: &'static str, before: &'static [Doing], at_once: &'static [Doing]) -> Scenario {
    Scenario { name, before, at_once, remembering: false, connections_max: 16 }
}

const fn remembering(name: &'static str, before: &'static [Doing], at_once: &'static [Doing]) -> Scenario {
    Scenario { name, before, at_once, remembering: true, connections_max: 16 }
}

/// A scenario with a limit of one connection per user.
const fn one_each(name: &'static str, before: &'static [Doing], at_once: &'static [Doing]) -> Scenario {
    Scenario { name, before, at_once, remembering: false, connections_max: 1 }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    // The sender commits, then lists connections. The recipient writes the connection, then drains. All reads
    // are consistent, so at least one finds the other; after both, the client drops the duplicate.
    scenario("send-connect", &[ALICE], &[to_bob("a1"), BOB]),
    scenario("send-connect-backlog", &[ALICE, to_bob("a1")], &[to_bob("a2"), BOB]),
    // Two first messages meet in the conversation's id, a digest of both users, and the second transaction
    // fails.
    scenario("send-first", &[], &[to_bob("a1"), to_alice("b1")]),
    // `last_seq` is a condition of each transaction: the slower writer reads again.
    scenario("send-opposite", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), to_alice("b1")]),
    scenario("send-same", &[BOB], &[to_bob("a1"), to_bob("a2")]),
    // The idempotency row is a condition of the transaction too, so a retry gets the first result. A run that
    // was killed before its commit did nothing; after it, the message is pending, and the retry posts again.
    scenario("send-retry", &[BOB], &[to_bob("a1"), to_bob("a1")]),
    // The write of a mark is conditional on the row as `ack` or `read` read it: a new message makes it read
    // again.
    scenario("send-ack", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Ack("bob", 1)]),
    scenario("send-read", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[to_bob("a3"), Read("bob", 1)]),
    scenario("send-read-all", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Read("bob", 1)]),
    scenario("send-drain", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Drain("bob")]),
    // A frame that API Gateway accepted proves nothing. The message stays pending until an `ack`, and `ping` or
    // the next connect finds it.
    scenario("send-disconnect", &[BOB], &[to_bob("a1"), Disconnect("bob")]),
    // Each connection has a row of its own, so the old socket's late `$disconnect` removes only that row.
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
    // A message moves its sender's marks in its own transaction, whose condition is the end that the sender had read.
    scenario("fuse-fuse", &[ALICE, BOB, to_bob("a1"), to_alice("b1")], &[fuse("alice", "a2", 2), fuse("bob", "b2", 2)]),
    // Where the other's message was first, the marks stay, and a `read` follows.
    scenario("fuse-send", &[ALICE, BOB, to_bob("a1")], &[fuse("bob", "b1", 1), to_bob("a2")]),
    scenario("fuse-ack", &[ALICE, BOB, to_bob("a1")], &[fuse("bob", "b1", 1), Ack("bob", 1)]),
    scenario("fuse-read", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[fuse("bob", "b1", 2), Read("bob", 1)]),
    scenario("fuse-delete", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[fuse("bob", "b1", 2), delete(2, "d1")]),
    // A duplicate's event carries the marks again: the first run may have died before its posts.
    scenario("fuse-retry", &[ALICE, BOB, to_bob("a1")], &[fuse("bob", "b1", 1), fuse("bob", "b1", 1)]),
    scenario("fuse-block", &[ALICE, BOB, to_bob("a1")], &[fuse("bob", "b1", 1), Block("alice", "bob")]),
    // A silent entry of an own kind moves the end, and no count.
    scenario("xs-xs", &[ALICE, BOB, to_bob("a1")], &[own("alice", "a2"), own("bob", "b1")]),
    scenario("xs-read", &[ALICE, BOB, to_bob("a1")], &[own("alice", "a2"), Read("bob", 1)]),
    scenario("xs-drain", &[ALICE, BOB, to_bob("a1"), own("alice", "a2")], &[Drain("bob"), own("alice", "a3")]),
    // No row counts a silent entry, so its delete changes no count.
    scenario(
        "xs-delete",
        &[ALICE, BOB, to_bob("a1"), own("alice", "a2"), to_bob("a3")],
        &[delete(2, "d1"), Read("bob", 1)],
    ),
    scenario(
        "g-xs-delete",
        &[PAIR, BOB, SAID, own("alice", "a2")],
        &[delete_of("alice", 3, "d1"), Read("bob", 2), Fanout],
    ),
    // `read` takes the mark away in the write that moves the marks.
    scenario("unread-read", &[ALICE, BOB, to_bob("a1")], &[Mark("bob"), Read("bob", 1)]),
    scenario("unread-send", &[ALICE, BOB, to_bob("a1"), Read("bob", 1)], &[Mark("bob"), to_bob("a2")]),
    // A function asks the filter before its transaction, and before that, it looks for the stored message.
    scenario("send-hook-refuses-retry", &[ALICE, BOB], &[to_bob(REFUSED), to_bob(REFUSED)]),
    scenario("send-hook-rewrites-retry", &[ALICE, BOB], &[to_bob(REWRITTEN), to_bob(REWRITTEN)]),
    // After a slow answer, and after a conflict, the rows are read again, and the verdict stands.
    scenario("send-hook-slow-send", &[ALICE, BOB, to_bob("a1")], &[to_bob(SLOW), to_alice("b1")]),
    scenario("edit-hook-delete", &[ALICE, BOB, to_bob("a1")], &[edit(1, SLOW), delete(1, "d1")]),
    scenario("drain-ack", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[Drain("bob"), Ack("bob", 1)]),
    scenario("note-note", &[ALICE], &[NOTE, Doing::Send { from: "alice", to: "alice", id: "n2" }]),
    // The block is in the sender's row too, and its absence is a condition of the message's transaction: the
    // first commit counts.
    scenario("send-block", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Block("bob", "alice")]),
    scenario("block-block", &[ALICE, BOB], &[Block("alice", "bob"), Block("bob", "alice")]),
    // A block and its end are conditional on both rows as `settings` read them. The user's is unchanged, and the
    // other's has no message. Otherwise `settings` reads again.
    scenario("block-twice", &[ALICE, BOB], &[Block("alice", "bob"), Block("alice", "bob")]),
    scenario("send-unblock", &[ALICE, BOB, Block("bob", "alice")], &[to_bob("a1"), Unblock("bob", "alice")]),
    scenario(
        "unblock-unblock",
        &[Block("alice", "bob"), Block("bob", "alice")],
        &[Unblock("alice", "bob"), Unblock("bob", "alice")],
    ),
    scenario("block-unblock", &[Block("alice", "bob")], &[Block("bob", "alice"), Unblock("alice", "bob")]),
    scenario("send-suspend", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Suspend("bob")]),
    scenario("connect-suspend", &[BOB], &[BOB, Suspend("bob")]),
    // An erased user's rows are closed before the log is gone through, and whoever writes has the own row as a condition.
    // The text of an emptied message can't come back: a change has that as a condition.
    scenario("erase-send", &[ALICE, BOB, to_bob("a1")], &[Erase("alice"), to_bob("a2")]),
    scenario("erase-send-to", &[ALICE, BOB, to_bob("a1")], &[Erase("bob"), to_bob("a2")]),
    scenario("erase-edit", &[ALICE, BOB, to_bob("a1")], &[Erase("alice"), edit(1, "e1")]),
    scenario("erase-react", &[ALICE, BOB, to_bob("a1")], &[Erase("alice"), react("bob", 1, "r1")]),
    scenario("erase-delete", &[ALICE, BOB, to_bob("a1")], &[Erase("alice"), Moderate(1)]),
    scenario("erase-delete-own", &[ALICE, BOB, to_bob("a1")], &[Erase("bob"), delete(1, "d1")]),
    scenario("erase-read", &[ALICE, BOB, to_bob("a1")], &[Erase("alice"), Read("bob", 1)]),
    scenario("erase-service", &[BOB, Publish(&["o1"])], &[Erase("bob"), Publish(&["o2"])]),
    scenario("erase-erase", &[ALICE, BOB, to_bob("a1")], &[Erase("alice"), Erase("alice")]),
    // A sample is an `ADD`, so concurrent samples add up. A run that is killed loses its own sample, and no
    // more.
    scenario("sample-crash", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Ack("bob", 1)]),
    // The process writes the suspension, then lists the sockets. A socket writes its row, then lists the user's
    // rows. At least one finds the other.
    scenario("suspend-connect", &[BOB, Fill("bob")], &[Ask("bob"), BOB]),
    // Each socket writes its row, then lists the user's rows. If two are above
    // the limit, one can be open for a moment, until the next delivery or connect closes it.
    one_each("connect-connect", &[ALICE, BOB], &[BOB, BOB]),
    one_each("send-connect-limit", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), BOB]),
    remembering("remembered-kick", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Kick("bob")]),
    // `notify` reads the row just before the push. An `ack` within that instant means one push too many. A run
    // that is killed before its note sends the push again, in place of the first.
    scenario("notify-ack", &[BOB, PHONE, to_bob("a1")], &[to_bob("a2"), Ack("bob", 1), Notify("bob")]),
    // The note of a push fails once the read mark has passed it, and `notify` then sends the dismissal. A
    // `read` that ends below the last message is written only if no push went out after its row was read.
    scenario("notify-read", &[BOB, PHONE, to_bob("a1"), to_bob("a2")], &[Notify("bob"), Read("bob", 1)]),
    scenario("notify-read-all", &[BOB, PHONE, to_bob("a1")], &[Notify("bob"), Read("bob", 1), to_bob("a2")]),
    scenario("fuse-ring", &[ALICE, BOB, PHONE, to_bob("a1")], &[Notify("bob"), fuse("bob", "b1", 1)]),
    scenario("notify-register", &[PHONE, to_bob("a1")], &[Notify("bob"), Register("alice", "aa01")]),
    // Each of the rows is a condition of the transaction, as it was read: the slower registration reads again,
    // and calls SNS again.
    scenario("register-register", &[], &[Register("alice", "aa01"), PHONE]),
    scenario("register-another", &[PHONE], &[Register("bob", "aa02"), Register("alice", "aa01")]),
    // A change reads the user's row, then the message. Its transaction is conditional on `last_seq`, which
    // every other change moves. So the message needs no version as a condition.
    scenario("edit-edit", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), edit(1, "e2")]),
    // One update has the text and the data of a version.
    scenario("edit-data-edit", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), edit(1, "e2"), Drain("bob")]),
    scenario("edit-data-delete", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), delete(1, "d1")]),
    scenario("edit-delete", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), delete(1, "d1")]),
    scenario("edit-send", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), to_alice("b1")]),
    scenario("edit-drain", &[ALICE, to_bob("a1")], &[edit(1, "e1"), Drain("bob")]),
    // The recipient's `read_seq` is a condition of the delete, and `last_seq` one of the read: the second of
    // the two counts again.
    scenario("delete-read", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[delete(2, "d1"), Read("bob", 2)]),
    scenario(
        "delete-read-part",
        &[ALICE, BOB, to_bob("a1"), to_bob("a2"), to_bob("a3"), Ack("bob", 3)],
        &[delete(2, "d1"), Read("bob", 2)],
    ),
    // A page that was read before the delete's commit may be on its way. The delete's own entry follows it.
    scenario("delete-drain", &[ALICE, to_bob("a1")], &[delete(1, "d1"), Drain("bob")]),
    // A duplicate's event is read from the table and not taken from the request, so a deleted text stays away.
    scenario("delete-retry", &[ALICE, BOB, to_bob("a1")], &[delete(1, "d1"), to_bob("a1")]),
    scenario("delete-connect", &[ALICE, to_bob("a1")], &[delete(1, "d1"), BOB]),
    scenario("react-react", &[ALICE, BOB, to_bob("a1")], &[react("alice", 1, "r1"), react("bob", 1, "r1")]),
    // The list of pins is that of the row as it was read: another pin has moved the conversation's end.
    scenario(
        "pin-pin",
        &[ALICE, BOB, to_bob("a1"), to_bob("a2")],
        &[pin("alice", 1, "p1", true), pin("bob", 2, "p2", true)],
    ),
    scenario("pin-delete", &[ALICE, BOB, to_bob("a1")], &[pin("bob", 1, "p1", true), delete(1, "d1")]),
    scenario("edit-block", &[ALICE, BOB, to_bob("a1")], &[edit(1, "e1"), Block("bob", "alice")]),
    // No text of a deleted message goes to the team's own servers by a read after its delete, and each entry goes there.
    scenario("send-publish-delete", &[ALICE, BOB, to_bob("a1")], &[to_bob("a2"), Hear, delete(1, "d1")]),
    scenario("edit-publish-edit", &[ALICE, BOB, to_bob("a1"), edit(1, "e1")], &[edit(1, "e2"), Hear]),
    scenario("publish-publish", &[ALICE, BOB, to_bob("a1"), to_bob("a2")], &[Hear, Hear, delete(2, "d1")]),
    // The note of a push fails for a deleted message, and `notify` sends the dismissal. The delete fails if a
    // push went out after its row was read.
    scenario("notify-delete", &[BOB, PHONE, to_bob("a1")], &[Notify("bob"), delete(1, "d1")]),
    // `look` is an attribute of its own, and its record in the stream says what to do: a later write over it
    // takes nothing away. The push of the message before fails its note once it is read.
    scenario(
        "notify-delete-last",
        &[BOB, PHONE, to_bob("a1"), to_bob("a2"), Notify("bob")],
        &[delete(2, "d1"), Read("bob", 1), Notify("bob")],
    ),
    scenario(
        "notify-edit",
        &[BOB, PHONE, to_bob("a1"), Notify("bob")],
        &[edit(1, "e1"), Read("bob", 1), Notify("bob")],
    ),
    // The inbox row is written, then connections are listed. A device writes its connection, then drains.
    scenario("g-send-fanout", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Fanout]),
    scenario("g-send-connect", &[PAIR, Fanout], &[Say("alice", "a1"), BOB]),
    scenario("g-send-fanout-connect", &[PAIR], &[Say("alice", "a1"), Fanout, BOB]),
    // The head's `last_seq` and the idempotency row are conditions of one transaction.
    scenario("g-send-send", &[PAIR, Fanout, ALICE, BOB], &[Say("alice", "a1"), Say("bob", "b1")]),
    scenario("g-send-retry", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Say("alice", "a1")]),
    // A move of a member's row is conditional on the row as it was read, and only the run that wrote it posts.
    scenario("g-fanout-fanout", &[THREE, BOB, Say("alice", "a1")], &[Fanout, Fanout]),
    // The first run was killed before it posted. A second run posts, or the stream's, and no `read` ends pending first.
    scenario("g-duplicate-fanout", &[PAIR, Fanout, BOB, DIED], &[Say("alice", "a1"), Fanout]),
    scenario("g-duplicate-read", &[PAIR, Fanout, BOB, DIED], &[Say("alice", "a1"), Read("bob", 1)]),
    scenario("g-fanout-say", &[THREE, BOB, DIED], &[Fanout, Say("bob", "b1")]),
    scenario("g-send-ack", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Ack("bob", 1)]),
    scenario("g-send-read", &[PAIR, BOB, Say("alice", "a1")], &[Say("alice", "a2"), Read("bob", 2)]),
    scenario("g-send-drain", &[PAIR, BOB, Say("alice", "a1")], &[Say("alice", "a2"), Drain("bob")]),
    // That everything before was read is a fact of the entry, so whoever brings the row up to date moves the marks.
    scenario("g-fuse-send", &[PAIR, ALICE, BOB, Say("alice", "a1")], &[fuse("bob", "b1", 2), Say("alice", "a2")]),
    scenario(
        "g-fuse-join",
        &[PAIR, ALICE, BOB, Say("alice", "a1")],
        &[fuse("bob", "b1", 2), add("alice", "carol", "n1")],
    ),
    // A mark above the inbox row's end: `ack` and `read` first bring the row up to date.
    scenario("g-read-above", &[PAIR, BOB], &[Say("alice", "a1"), Catch("bob")]),
    scenario("g-inbox-send", &[PAIR, BOB], &[Say("alice", "a1"), Look("bob")]),
    // `reconcile` takes new members from the entry, not from the member list, which may lag in a query.
    scenario("g-add-send", &[PAIR, Fanout], &[add("alice", "carol", "n1"), Say("bob", "b1")]),
    scenario("g-add-connect", &[PAIR, Fanout], &[add("alice", "carol", "n1"), Connect("carol")]),
    scenario("g-add-add", &[PAIR, Fanout], &[add("alice", "carol", "n1"), add("bob", "carol", "n2")]),
    // A writer reads the head before the member list, and the head is a condition. A removal before the first
    // read shows in the second, and a later one moves the head.
    scenario(
        "g-remove-send",
        &[THREE, Fanout, Connect("carol")],
        &[remove("alice", "carol", "x1"), Say("carol", "s1")],
    ),
    scenario("g-restrict-send", &[PAIR, Fanout, BOB], &[role("alice", "bob", "restrict", "r1"), Say("bob", "b1")]),
    scenario(
        "g-restrict-edit",
        &[PAIR, Fanout, BOB, Say("bob", "b1")],
        &[role("alice", "bob", "restrict", "r1"), edit_of("bob", 2, "e1")],
    ),
    // The restriction of a former member ends when another user adds them.
    scenario(
        "g-restrict-leave-add",
        &[THREE, role("alice", "carol", "restrict", "r1"), leave("carol", "l1")],
        &[add("alice", "carol", "n1"), Say("carol", "c1")],
    ),
    scenario(
        "g-restrict-leave-return",
        &[THREE, role("alice", "carol", "restrict", "r1"), leave("carol", "l1")],
        &[Join("carol"), Fanout],
    ),
    // The removal and the message each have a `seq`. The removed member sees a message below the removal; above
    // it, the member's row has applied the leave first.
    scenario("g-remove-other", &[THREE, Fanout, Connect("carol")], &[remove("alice", "carol", "x1"), Say("bob", "b1")]),
    // `history` reads the head, then the member list, then the entries, and none above that head.
    scenario("g-remove-history", &[THREE, Fanout], &[remove("alice", "carol", "x1"), Catch("carol"), Say("bob", "b1")]),
    // The message's row names the entry of its last edit. If that entry is above the head, the function
    // reads head and member list again. The caller is still a member, or left before the edit.
    scenario("g-remove-edit", &[THREE, SAID], &[remove("alice", "carol", "x1"), edit(2, "e1"), Catch("carol")]),
    scenario("g-remove-edit-drain", &[THREE, SAID], &[remove("alice", "carol", "x1"), edit(2, "e1"), Drain("carol")]),
    scenario(
        "g-remove-react",
        &[THREE, SAID, Connect("carol"), remove("alice", "carol", "x1")],
        &[react("bob", 2, "r1"), delete_of("alice", 2, "d1"), Catch("carol")],
    ),
    // An edit above the member's row is not shown. For a member, the edit's own entry follows.
    scenario(
        "g-remove-edit-fanout",
        &[THREE, Fanout, Connect("carol"), DIED, Dying(&remove("alice", "carol", "x1")), Dying(&edit(2, "e1"))],
        &[Fanout, Drain("carol")],
    ),
    scenario(
        "g-rejoin-edit",
        &[THREE, SAID, remove("alice", "carol", "x1"), add("alice", "carol", "n1")],
        &[edit(2, "e1"), Drain("carol")],
    ),
    // The row applies the leave and the addition. `fanout` deletes the member-list row only if it still records
    // that leave.
    scenario("g-leave-rejoin", &[THREE, Fanout, leave("carol", "l1")], &[Fanout, add("alice", "carol", "n1")]),
    // The second device finds the head moved, and then that the user is a member.
    scenario("g-return-return", &[THREE, Fanout, leave("carol", "l1")], &[Join("carol"), Join("carol")]),
    scenario("g-return-add", &[THREE, leave("carol", "l1")], &[Join("carol"), add("alice", "carol", "n1")]),
    scenario("g-leave-add-member", &[THREE, Fanout], &[leave("carol", "l1"), add("bob", "carol", "n1"), Fanout]),
    scenario(
        "g-remove-delete",
        &[THREE, BOB, Say("carol", "c1")],
        &[remove("alice", "carol", "x1"), delete_of("carol", 2, "d1")],
    ),
    // The member-list row counts the user's leaves, and a leave writes it together with the head. Once that row
    // is gone, the inbox row has the count.
    scenario("g-leave-add", &[THREE, Fanout, Connect("carol")], &[leave("carol", "l1"), add("alice", "carol", "n1")]),
    scenario(
        "g-demote-remove",
        &[THREE, Fanout, role("alice", "bob", "promote", "o1")],
        &[role("alice", "bob", "demote", "o2"), remove("bob", "carol", "x1")],
    ),
    scenario("g-create-retry", &[BOB], &[PAIR, PAIR]),
    scenario("g-delete-send", &[PAIR, BOB, Say("alice", "a1")], &[delete_of("alice", 2, "d1"), Say("bob", "b1")]),
    // A message that is deleted above the row's `last_seq` still counts as unread; the row applies the delete
    // later.
    scenario(
        "g-delete-read",
        &[PAIR, BOB, Say("alice", "a1"), Say("alice", "a2")],
        &[delete_of("alice", 3, "d1"), Read("bob", 2)],
    ),
    scenario("g-delete-retry", &[PAIR, BOB, Say("alice", "a1")], &[delete_of("alice", 2, "d1"), Say("alice", "a1")]),
    scenario(
        "g-pin-pin",
        &[PAIR, Say("alice", "a1"), Say("alice", "a2")],
        &[pin("alice", 2, "p1", true), pin("alice", 3, "p2", true)],
    ),
    scenario("g-react-react", &[PAIR, Say("alice", "a1")], &[react("alice", 2, "r1"), react("bob", 2, "r1")]),
    scenario("g-edit-delete", &[PAIR, BOB, Say("alice", "a1")], &[edit(2, "e1"), delete_of("alice", 2, "d1")]),
    scenario("g-edit-edit", &[PAIR, BOB, Say("alice", "a1")], &[edit(2, "e1"), edit(2, "e2")]),
    scenario("g-sender-unread", &[PAIR, BOB, Say("alice", "a1")], &[Say("bob", "b1"), Read("bob", 2)]),
    scenario("g-send-send-fanout", &[PAIR, Fanout, BOB], &[Say("alice", "a1"), Say("bob", "b1"), Fanout]),
    // A query can see a head without its entry, or an entry without the one before. A row applies what is
    // visible without a hole; a run that sees nothing fails its record.
    scenario("g-fanout", &[PAIR, DIED, Dying(&add("alice", "carol", "n1")), Dying(&Say("alice", "a2"))], &[Fanout]),
    // A batch that was killed between members runs again, and skips the rows that are at the end. A row has the
    // number of the record that moved it, so the second run repeats a post that the first may not have made.
    scenario("g-fanout-twice", &[THREE, BOB, DIED, Dying(&Say("bob", "b1"))], &[Fanout, Fanout]),
    // The head, which the receipts need, shows where the log ends: the
    // function applies the log up to there before the reply.
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
    // The transaction requires that the media row has no message yet. Before a refusal, the idempotency row is
    // read once more.
    scenario("media-send-send", &[ALICE, BOB, PICTURE], &[carry("a1"), carry("a2")]),
    scenario("media-send-retry", &[ALICE, BOB, PICTURE], &[carry("a1"), carry("a1")]),
    // The transaction removes the row's TTL if that is still to come. A row without TTL never expires.
    scenario("media-send-expire", &[ALICE, BOB, PICTURE], &[carry("a1"), Expire, Sweep]),
    // The cleanup leaves a row until no put with a valid URL can be in progress, and then deletes the object
    // again.
    scenario("media-expire-put", &[ALICE, PICTURE], &[Expire, Put("alice"), Sweep]),
    scenario("media-delete-send", &[ALICE, BOB, PICTURE, carry("a1")], &[delete(1, "d1"), carry("a2")]),
    scenario("media-delete-put", &[ALICE, BOB, PICTURE, carry("a1")], &[delete(1, "d1"), Put("alice"), Sweep]),
    // The media row goes with the message. A URL that was signed before fails once the object is deleted.
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
    // `watch` writes its row, then reads the head for the reply. `fanout` reads the subscribers after the
    // commit: an entry above the reply is posted, and one below it is in the history.
    scenario("ch-post-watch", &[CHANNEL, BOB], &[Say("alice", "a1"), Watch("bob")]),
    scenario("ch-post-watch-fanout", &[CHANNEL, BOB], &[Say("alice", "a1"), Watch("bob"), Fanout]),
    scenario("ch-post-fanout", &[CHANNEL, BOB, Watch("bob")], &[Say("alice", "a1"), Fanout]),
    // Each part of the subscribers records, after the posts, how far it was notified. A part can be notified
    // twice, and never skipped.
    scenario("ch-fanout-fanout", &[CHANNEL, BOB, Watch("bob"), Say("alice", "a1")], &[Fanout, Fanout]),
    // `fanout` reads the entries, then the subscribers' membership. A subscriber without a row gets nothing,
    // and an entry after the removal is not among those entries.
    scenario(
        "ch-remove-fanout",
        &[CHANNEL, BOB, Watch("bob")],
        &[remove("alice", "bob", "x1"), Say("alice", "a1"), Fanout],
    ),
    scenario("ch-remove-watch", &[CHANNEL, BOB], &[remove("alice", "bob", "x1"), Watch("bob"), Say("alice", "a1")]),
    // The operator's function writes the suspension, then removes the user's subscriptions. `watch` writes its
    // row, then looks for a suspension.
    scenario("ch-suspend-watch", &[CHANNEL, BOB], &[Suspend("bob"), Watch("bob"), Say("alice", "a1")]),
    // `join` writes the row if none exists, in one transaction with the member index, so both have the same
    // time.
    scenario("ch-join-join", &[CHANNEL], &[Join("carol"), Join("carol")]),
    // A removal is an entry, and moves the head, which is a condition of the post.
    scenario("ch-remove-post", &[CHANNEL], &[remove("alice", "bob", "x1"), Say("bob", "b1")]),
    // The poster's own row is in the post's transaction, with the condition that it exists.
    scenario("ch-leave-post", &[CHANNEL], &[leave("bob", "l1"), Say("bob", "b1")]),
    // The row of the member index has the time of the join, and a leave deletes it only if it is still that
    // one.
    scenario("ch-leave-join", &[CHANNEL], &[leave("bob", "l1"), Join("bob")]),
    scenario("ch-leave-delete", &[CHANNEL, Say("bob", "b1")], &[leave("bob", "l1"), delete_of("bob", 2, "d1")]),
    // The join requires that no admin has removed the user; the removal records that in its own transaction.
    scenario(
        "ch-join-remove",
        &[CHANNEL, leave("bob", "l1")],
        &[Join("bob"), Join("bob"), remove("alice", "bob", "x1")],
    ),
    // A restriction is an entry, and moves the head, which is a condition of the post.
    scenario("ch-restrict-post", &[CHANNEL], &[role("alice", "bob", "restrict", "r1"), Say("bob", "b1")]),
    scenario(
        "ch-restrict-edit",
        &[CHANNEL, Say("bob", "b1")],
        &[role("alice", "bob", "restrict", "r1"), edit_of("bob", 2, "e1")],
    ),
    // A leave of a restricted member records that in its transaction, and the join reads it.
    scenario(
        "ch-restrict-leave-join",
        &[CHANNEL, role("alice", "bob", "restrict", "r1")],
        &[leave("bob", "l1"), Join("bob"), Say("bob", "b1")],
    ),
    scenario("ch-join-post", &[CHANNEL], &[Join("carol"), Say("alice", "a1")]),
    scenario("ch-join-add", &[CHANNEL], &[Join("carol"), add("alice", "carol", "n1")]),
    scenario("ch-post-post", &[CHANNEL], &[Say("alice", "a1"), Say("bob", "b1")]),
    // `read` reads the head first, and the mark goes no further.
    scenario("ch-post-read", &[CHANNEL, Say("alice", "a1")], &[Say("alice", "a2"), Read("bob", 2)]),
    scenario("ch-own-post-read", &[CHANNEL, Say("alice", "a1")], &[Say("bob", "b1"), Read("bob", 2)]),
    scenario("ch-delete-read", &[CHANNEL, Say("alice", "a1")], &[delete_of("alice", 2, "d1"), Read("bob", 2)]),
    // The mention is written after the post, if the row exists and has not read it.
    scenario("c-mention-leave", &[CHANNEL], &[Mention("alice", "a1"), leave("bob", "l1")]),
    scenario("c-mention-read", &[CHANNEL], &[Mention("alice", "a1"), Read("bob", 2)]),
    scenario("c-mention-mention", &[CHANNEL, Join("carol")], &[Mention("alice", "a1"), Mention("carol", "c1")]),
    // `notify` pushes first, then records the push in the row, unless the user has read the message by then.
    scenario("c-mention-ring", &[CHANNEL, PHONE, Mention("alice", "a1")], &[Notify("bob"), Read("bob", 2)]),
    scenario("c-mention-killed", &[CHANNEL, PHONE], &[Mention("alice", "a1"), Notify("bob")]),
    scenario("s-publish-connect", &[], &[Publish(&["o1", "o2"]), BOB]),
    // The transaction is conditional on the end in the user's row, as for any message.
    scenario("s-publish-ack", &[BOB, Publish(&["o1"])], &[Publish(&["o2"]), Ack("bob", 1)]),
    scenario("s-publish-read", &[BOB, Publish(&["o1", "o2"])], &[Publish(&["o3"]), Read("bob", 1)]),
    // The two runs go through the same order. The slower one finds duplicates, and stores nothing before what it
    // has found stored.
    scenario("s-publish-publish", &[BOB], &[Publish(&["o1", "o2"]), Publish(&["o1", "o2"])]),
    // The queue delivers the messages behind one only once that is stored; the run that stored it may still work.
    scenario("s-publish-rest", &[BOB, Publish(&["o1"])], &[Publish(&["o1", "o2", "o3"]), Publish(&["o2", "o3"])]),
    scenario("s-publish-tell-ack", &[BOB, Publish(&["o1"])], &[Publish(&["o2"]), Tell("t1"), Ack("bob", 1)]),
    scenario("s-tell-retry", &[BOB], &[Tell("t1"), Tell("t1")]),
    scenario("s-moderate-publish", &[BOB, Publish(&["o1"])], &[Moderate(1), Publish(&["o2"])]),
    scenario("s-moderate-read", &[BOB, Publish(&["o1", "o2"])], &[Moderate(2), Read("bob", 1)]),
    // The message's row is a condition of both deletes: the second finds it deleted.
    scenario("moderate-delete", &[ALICE, BOB, to_bob("a1")], &[Moderate(1), delete(1, "d1")]),
    scenario("moderate-send", &[ALICE, BOB, to_bob("a1")], &[Moderate(1), to_alice("b1")]),
    // The write of a watch returns when the user was last seen. If that is later than in the list, the user came or
    // went in between without an event, and `presence` lists again.
    scenario("presence-connect", &[ALICE, BOB, to_bob("a1"), to_alice("b1"), Disconnect("bob")], &[See("alice"), BOB]),
    scenario("presence-disconnect", &[ALICE, BOB, to_bob("a1"), to_alice("b1")], &[See("alice"), Disconnect("bob")]),
    // A connect lists the user's connections after its own row, and a disconnect after its delete.
    scenario(
        "presence-reconnect",
        &[ALICE, BOB, to_bob("a1"), to_alice("b1"), See("alice")],
        &[Disconnect("bob"), BOB],
    ),
    // The claim deletes the row of each package that it takes: the second claim finds another package, or the last
    // resort.
    scenario("claim-claim", &[Offer("bob", &["p1", "p2"])], &[Claim("alice", "k1"), Claim("carol", "k1")]),
    scenario("claim-last", &[Offer("bob", &["p1"])], &[Claim("alice", "k1"), Claim("carol", "k1")]),
    // The claim's own row is a condition of its transaction.
    scenario("claim-retry", &[Offer("bob", &["p1", "p2"])], &[Claim("alice", "k1"), Claim("alice", "k1")]),
    // The row of a package outlives its claim: a repeated publication does not add it again.
    scenario("claim-offer", &[Offer("bob", &["p1"])], &[Claim("alice", "k1"), Offer("bob", &["p1", "p2"])]),
    // Requests of one user write one row, and so follow one another.
    scenario("offer-offer", &[], &[Offer("bob", &["p1", "p2"]), Offer("bob", &["p1", "p3"])]),
    // A commit is stored if the conversation ends where the inbox row had its epoch. So of two, one is stored.
    scenario("birth-birth", &[], &[BIRTH, commit("bob", "k1", 0)]),
    scenario("birth-send", &[to_bob("a1")], &[commit("bob", "k1", 0), to_bob("a2")]),
    scenario("birth-first", &[], &[BIRTH, to_alice("b1")]),
    scenario("commit-commit", &[BIRTH], &[commit("alice", "k1", 1), commit("bob", "k2", 1)]),
    // A message makes no commit stale. A commit makes the message stale, unless the message was stored before.
    scenario("commit-send", &[BIRTH], &[commit("bob", "k1", 1), seal("alice", "m1", 1)]),
    scenario("commit-send-new", &[BIRTH], &[commit("bob", "k1", 1), seal("alice", "m1", 2)]),
    // The epoch is read before the idempotency row: a stored copy is never called stale.
    scenario("commit-send-retry", &[BIRTH, seal("alice", "m1", 1)], &[commit("bob", "k1", 1), seal("alice", "m1", 1)]),
    scenario("commit-stop", &[BIRTH], &[commit("alice", "k1", 1), commit("alice", "k1", 1)]),
    scenario("commit-read", &[BOB, BIRTH, seal("alice", "m1", 1)], &[commit("alice", "k1", 1), Read("bob", 2)]),
    // A sealed group's epoch is in its head, which is a condition of each entry. So a commit, an addition and a removal
    // with a commit make each other stale.
    scenario("g-birth-birth", &[PAIR, role("alice", "bob", "promote", "o1")], &[BIRTH, commit("bob", "k1", 0)]),
    scenario("g-birth-say", &[PAIR, BOB], &[BIRTH, Say("bob", "b1")]),
    scenario("g-birth-add", &[PAIR], &[BIRTH, add("bob", "carol", "n1")]),
    scenario("g-birth-leave", &[THREE], &[BIRTH, leave("carol", "l1"), seal("bob", "m1", 1)]),
    scenario("g-reset-commit", &[PAIR, BIRTH], &[reset("bob", "k1", 1), commit("alice", "k2", 1)]),
    scenario("g-commit-commit", &[PAIR, BIRTH], &[commit("alice", "k1", 1), commit("bob", "k2", 1)]),
    scenario("g-commit-retry", &[PAIR, BOB, BIRTH], &[commit("alice", "k1", 1), commit("alice", "k1", 1)]),
    scenario("g-commit-seal", &[PAIR, BOB, BIRTH], &[commit("alice", "k1", 1), seal("bob", "m1", 1)]),
    scenario(
        "g-commit-seal-retry",
        &[PAIR, BIRTH, seal("bob", "m1", 1)],
        &[commit("alice", "k1", 1), seal("bob", "m1", 1)],
    ),
    scenario("g-commit-read", &[PAIR, BOB, BIRTH, SEALED], &[commit("alice", "k1", 1), Read("bob", 3)]),
    scenario(
        "g-commit-fanout",
        &[THREE, BOB, BIRTH, Dying(&commit("alice", "k1", 1))],
        &[Fanout, seal("bob", "m1", 2)],
    ),
    scenario("g-commit-add", &[PAIR, BIRTH], &[commit("bob", "k1", 1), add_at("alice", "carol", "n1", 1)]),
    scenario("g-commit-remove", &[THREE, BIRTH], &[commit("bob", "k1", 1), remove_at("alice", "carol", "x1", 1)]),
    // A removal without a commit is never stale. A user can't stay by committing first.
    scenario("g-commit-removed", &[THREE, BIRTH], &[commit("carol", "k1", 1), remove("alice", "carol", "x1")]),
    // The head has the users who left until a commit names them. A commit from before a leave does not name its user.
    scenario(
        "g-commit-leave",
        &[THREE, BIRTH],
        &[commit("bob", "k1", 1), leave("carol", "l1"), seal("alice", "m1", 1)],
    ),
    scenario("g-seal-remove", &[THREE, BIRTH], &[seal("bob", "m1", 1), remove("alice", "carol", "x1")]),
    scenario(
        "g-named-leave",
        &[THREE, BIRTH, leave("bob", "l1")],
        &[naming("alice", "k1", 1, &["bob"]), leave("carol", "l2"), seal("alice", "m1", 2)],
    ),
    scenario(
        "g-named-add",
        &[THREE, BIRTH, leave("bob", "l1")],
        &[naming("carol", "k1", 1, &["bob"]), add_at("alice", "bob", "n1", 2)],
    ),
    // A user who comes back has left: the old device may have the keys.
    scenario(
        "g-join-named",
        &[THREE, BIRTH, leave("carol", "l1")],
        &[Join("carol"), naming("bob", "k1", 1, &["carol"]), seal("bob", "m1", 2)],
    ),
    scenario("g-add-add-sealed", &[PAIR, BIRTH], &[add_at("alice", "carol", "n1", 1), add_at("bob", "carol", "n2", 1)]),
    scenario("g-add-leave-sealed", &[PAIR, BIRTH], &[add_at("alice", "carol", "n1", 1), leave("bob", "l1")]),
    scenario(
        "g-remove-leave",
        &[THREE, BIRTH],
        &[remove_at("alice", "bob", "x1", 1), leave("carol", "l1"), seal("alice", "m1", 2)],
    ),
    scenario("g-remove-leave-same", &[THREE, BIRTH], &[remove_at("alice", "carol", "x1", 1), leave("carol", "l1")]),
    // The claim reads the member list, and then takes the packages.
    scenario("g-claim-remove", &[PAIR, OFFER], &[Claim("alice", "k1"), remove("alice", "bob", "x1")]),
    // The upload of a message that got stale stays free, for the same message at the new epoch.
    scenario("sealed-media-commit", &[BIRTH, PICTURE], &[carry_at("a1", 1), commit("bob", "k1", 1)]),
    scenario("sealed-media-send-send", &[ALICE, BOB, BIRTH, PICTURE], &[carry_at("a1", 1), carry_at("a2", 1)]),
    scenario("sealed-media-expire", &[BOB, BIRTH, PICTURE], &[carry_at("a1", 1), Expire, Sweep]),
    scenario("sealed-media-delete", &[BOB, BIRTH, PICTURE, carry_at("a1", 1)], &[delete(2, "d1"), Fetch("bob"), Sweep]),
    scenario("g-sealed-media-commit", &[PAIR, BIRTH, PICTURE], &[carry_at("a1", 1), commit("bob", "k1", 1)]),
    // The transaction of a commit attaches its files, and ends the tree of the epoch before, if no entry has it.
    scenario("g-file-commit", &[PAIR, BIRTH, PICTURE], &[refer("k1", 1), commit("bob", "k2", 1)]),
    scenario("g-file-file", &[PAIR, BIRTH, PICTURE], &[refer("k1", 1), refer("k2", 1)]),
    scenario("g-file-retry", &[PAIR, BIRTH, PICTURE], &[refer("k1", 1), refer("k1", 1)]),
    scenario("g-file-expire", &[PAIR, BIRTH, PICTURE], &[refer("k1", 1), Expire, Sweep]),
    scenario("g-file-fetch", &[PAIR, BOB, BIRTH, PICTURE], &[refer("k1", 1), Fetch("bob")]),
    scenario(
        "g-file-next",
        &[PAIR, BIRTH, PICTURE, refer("k1", 1)],
        &[commit("bob", "k2", 2), commit("alice", "k3", 2), Expire],
    ),
    scenario("g-file-next-add", &[PAIR, BIRTH, PICTURE, refer("k1", 1)], &[add_at("alice", "carol", "n1", 2), Expire]),
    scenario("send-send-drain", &[to_bob("a1")], &[to_bob("a2"), to_alice("b1"), Drain("bob")]),
];
