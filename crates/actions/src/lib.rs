//! The use cases that the functions share. A function parses a request, calls a method of [`Actions`], and replies.
//!
//! Each change is one conditional write or transaction, in `store`; the rules that decide on it are in `domain`. The
//! events of a change go out after its commit.
//!
//! The kinds of conversation differ in [`direct`], [`group`] and [`channel`]; [`log`] is what a group and a channel
//! share. A request finds its kind in this file. A shared step that depends on the kind has a `match` of its own, here
//! and in the functions. Each `match` names every kind, so a fourth kind does not compile until all of them do.

mod access;
mod backlog;
mod channel;
mod clock;
mod direct;
mod entry;
mod group;
mod hook;
mod log;
mod marks;
mod profiles;
mod report;
mod retry;
mod sends;
mod set;
mod tell;
mod texts;

use deliver::{Delivered, Fanout};
use domain::{
    Change, ConnectionId, Content, Draft, Entry, ErasedBody, Failure, GroupChange, Head, Membership, NewCommit, Origin,
    Sight, sealed_bytes,
};
use futures_util::future::try_join_all;
use store::connections::{self, Connection, Freshness};
use store::{Store, WarmTable, heads, roster, watchers};
use wire::{
    Attached, Bytes, ClientMsgId, CommitRequest, ConversationId, ConversationKind, DeviceId, Kind, LeaveRequest,
    ProfileChange, ProfileResult, ProfilesRequest, ProfilesResult, ReadResult, Refusal, Rekeyed, ReportRequest,
    ReportResult, SealedMedia, SendRequest, Seq, ServerEvent, Settings, Target, Timestamp, TypingText, UserId,
    WatchResult,
};

pub use access::Access;
pub use backlog::{DrainPage, PageBefore};
pub use channel::forget_watched;
pub use clock::Clock;
pub use entry::{Appended, Concerned, Joined, Wanted, Writer, conversation_for, random_bytes};
pub use group::{LogSoFar, Repaired};
pub use hook::{Ask, Asked, Hook};
pub use log::{Changed, Reconciled, added, creation};
pub use marks::{Raised, Repeats};
pub use profiles::WrittenAt;
pub use retry::{Attempt, retry};
pub use sends::SendLimits;
pub use store::inbox::Mark;
use texts::Texts;

/// The use cases, and what they work with. Made once per process.
#[derive(Debug)]
pub struct Actions {
    pub store: Store,
    pub fanout: Fanout,
    pub limits: SendLimits,
    pub clock: Clock,
    /// The team's own filter of what users write.
    pub hook: Option<Hook>,
    /// The repetitions of a mark whose receipts this process has sent.
    repeats: Repeats,
    /// The conversations in which this process has sent texts of services.
    texts: Texts,
}

impl Actions {
    pub fn new(store: Store, fanout: Fanout, limits: SendLimits, clock: Clock) -> Self {
        Self { store, fanout, limits, clock, hook: None, repeats: Repeats::default(), texts: Texts::default() }
    }

    /// Opens the connections that the first event needs: to `DynamoDB`, and to API Gateway.
    pub async fn warm_up(&self, table: WarmTable) {
        tokio::join!(store::warm_up(&self.store, table), self.fanout.warm_up());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Appends a message. Counts in `conflicts` how often another writer was faster.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn append(
        &self,
        writer: Writer<'_>,
        request: SendRequest,
        conflicts: &mut u64,
    ) -> Result<Appended, Failure> {
        let SendRequest {
            target,
            client_msg_id,
            kind,
            body,
            media,
            data,
            reply_to,
            read,
            mentions,
            epoch,
            silent,
            frank,
        } = request;
        let conversation_id = conversation_for(writer.user, &target);
        let kind_of_conversation = conversation_id.kind();
        check_mentions(kind_of_conversation, &mentions)?;
        let mentioned = match kind_of_conversation {
            ConversationKind::Channel => mentions.clone(),
            ConversationKind::Direct | ConversationKind::Group => vec![],
        };
        let content = match epoch {
            Some(epoch) => {
                let body = Bytes::parse(&body).ok_or_else(|| Refusal::bad_request("body", "must be base64"))?;
                let media = media.map(|media| Box::new(measured(*media)));
                Content::Sealed { epoch, silent, body, media, frank }
            }
            None => Content::Message { kind, body, media, data, reply_to, mentions },
        };
        let draft = Draft::new(conversation_id, writer.user.clone(), client_msg_id, content);
        let written = self.hook.as_ref().map(|_| draft.content.clone());
        let appended = match kind_of_conversation {
            ConversationKind::Direct => direct::append(self, &target, draft, (reply_to, read), conflicts).await?,
            ConversationKind::Group | ConversationKind::Channel => {
                if epoch.is_some() {
                    check_sealable(&draft.conversation_id)?;
                }
                let appended = log::append(self, writer, draft, read, conflicts).await?.entry()?;
                if !mentioned.is_empty() {
                    channel::mention(self, writer.user, &appended, &mentioned).await;
                }
                self.with_read_seq(appended, writer.user, read).await
            }
        };
        Ok(hook::compared(appended, written.as_ref()))
    }

    /// Adds the writer's read mark to an entry of a group or a channel. Without it, the client sends a `read`.
    async fn with_read_seq(&self, mut appended: Appended, user: &UserId, read: Option<Seq>) -> Appended {
        let seq = appended.place.seq;
        let is_read = appended.entry.as_ref().is_some_and(|entry| entry.read_all) && !appended.duplicate;
        appended.read_seq = match &appended.concerned {
            _ if read.is_none() => None,
            Concerned::Group { .. } if !is_read => {
                let row = store::inbox::get(&self.store, user, &appended.conversation_id).await;
                row.ok().flatten().map(|row| {
                    let is_next = row.end.seq.next() == seq && !appended.duplicate;
                    // The row comes to the entry later. The mark follows if it is at the entry before.
                    if is_next { row.marks.with_own(row.end.seq, seq, false).read_seq } else { row.marks.read_seq }
                })
            }
            // A user who posts in a channel has read it.
            Concerned::Group { .. } | Concerned::Channel | Concerned::Audience(..) => Some(seq),
        };
        appended
    }

    /// Appends a commit, which changes the keys of a sealed conversation or begins it. Counts in `conflicts` how often
    /// another writer was faster.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn commit(
        &self,
        writer: Writer<'_>,
        request: CommitRequest,
        conflicts: &mut u64,
    ) -> Result<Appended, Failure> {
        let CommitRequest { target, client_msg_id, epoch, commit, welcome, group_info, tree, removes } = request;
        let conversation_id = conversation_for(writer.user, &target);
        check_sealable(&conversation_id)?;
        let (commit, welcome) = (commit.map(|commit| *commit), welcome.map(|welcome| *welcome));
        let commit = NewCommit { epoch, commit, welcome, group_info, tree: *tree, removes };
        let kind = conversation_id.kind();
        let content = Content::Commit(Box::new(commit));
        let draft = Draft::new(conversation_id, writer.user.clone(), client_msg_id, content);
        match kind {
            ConversationKind::Direct => direct::append(self, &target, draft, (None, None), conflicts).await,
            ConversationKind::Group | ConversationKind::Channel => {
                Ok(log::append(self, writer, draft, None, conflicts).await?.entry()?)
            }
        }
    }

    /// Checks whether `user` may write to each of these other users.
    ///
    /// # Errors
    /// `forbidden`, or a service that failed.
    pub async fn check_reach(&self, user: &UserId, others: &[&UserId]) -> Result<(), Failure> {
        direct::check_reach(self, user, others).await
    }

    /// Checks whether `user` and all these users are members of the group, and have devices.
    ///
    /// # Errors
    /// `not_member`, `gone`, `forbidden` for a service, or a service that failed.
    pub async fn check_members(&self, user: &UserId, users: &[UserId], group: &ConversationId) -> Result<(), Failure> {
        let others = users.iter().filter(|other| *other != user);
        let wanted: Vec<UserId> = others.chain(std::iter::once(user)).cloned().collect();
        let rows = roster::get_many(&self.store, group, &wanted).await?;
        let is_member = |user: &UserId| rows.iter().any(|row| row.user_id == *user && row.is_member());
        if !is_member(user) {
            return Err(Refusal::NotMember.into());
        }
        if !users.iter().all(is_member) {
            return Err(Refusal::Gone.into());
        }
        if users.iter().any(UserId::is_service) { Err(Refusal::Forbidden.into()) } else { Ok(()) }
    }

    /// Edits a message, deletes it, reacts to it, or pins it. Counts in `conflicts` how often another writer was faster.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn change(&self, writer: Writer<'_>, wanted: Wanted, conflicts: &mut u64) -> Result<Appended, Failure> {
        let Wanted { conversation_id, target, client_msg_id, change } = wanted;
        let kind = conversation_id.kind();
        let content = Content::Change { target, change: change.clone() };
        let draft = Draft::new(conversation_id, writer.user.clone(), client_msg_id, content);
        let written = self.hook.as_ref().map(|_| draft.content.clone());
        let appended = match (kind, &change) {
            (ConversationKind::Direct, _) => direct::change(self, draft, target, conflicts).await?,
            // No entry: thousands may react to a message.
            (ConversationKind::Channel, Change::React { emoji }) => {
                channel::react(self, draft, target, emoji.as_ref(), conflicts).await?
            }
            (ConversationKind::Group, _)
            | (ConversationKind::Channel, Change::Edit { .. } | Change::Delete | Change::Pin { .. }) => {
                log::append(self, writer, draft, None, conflicts).await?.entry()?
            }
        };
        Ok(hook::compared(appended, written.as_ref()))
    }

    /// Deletes a message of any author for an operator. Its entry is the system's, which is no member.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn delete_message(
        &self,
        (conversation_id, target): (ConversationId, Seq),
        conflicts: &mut u64,
    ) -> Result<Appended, Failure> {
        // No service may write under such a key, though one has the same name.
        let client_msg_id = ClientMsgId::parse(&format!("{}delete:{target}", ClientMsgId::OPERATOR_PREFIX));
        let client_msg_id = client_msg_id.map_err(|invalid| Failure::Unavailable(invalid.into()))?;
        let writer = Writer { user: &UserId::service_default(), origin: None };
        let wanted = Wanted { conversation_id, target, client_msg_id, change: Change::Delete };
        self.change(writer, wanted, conflicts).await
    }

    /// Appends the entry about an erased user to a direct conversation with `peer`. `key` names the entry: a repetition
    /// appends none, and returns `None`.
    ///
    /// # Errors
    /// `gone`: the peer has no row. Or a service that failed.
    pub async fn append_erased(
        &self,
        conversation: &ConversationId,
        members: (&UserId, &UserId),
        erased: ErasedBody,
        key: &str,
    ) -> Result<Option<Appended>, Failure> {
        let key = ClientMsgId::parse(&format!("{}{key}", ClientMsgId::OPERATOR_PREFIX));
        let key = key.map_err(|invalid| Failure::Unavailable(invalid.into()))?;
        direct::append_erased(self, conversation, members, (erased, key)).await
    }

    /// Closes all sockets of a user. Frames sent meanwhile may still be processed. Returns the
    /// number of sockets.
    ///
    /// # Errors
    /// A socket that was not closed, or a service that failed.
    pub async fn disconnect(&self, user: &UserId) -> Result<usize, Failure> {
        let now = self.now();
        let listed = connections::list(&self.store, user, now, Freshness::Strong).await?;
        let all: Vec<_> = listed.open.into_iter().map(|open| open.connection).chain(listed.ended).collect();
        let closed = self.fanout.close_all(now, user, &all).await.len();
        if closed < all.len() {
            return Err(Failure::Unavailable(format!("{closed} of {} connections were closed", all.len()).into()));
        }
        Ok(closed)
    }

    /// Ends the subscriptions of a user to channels, also where a socket can't be closed.
    ///
    /// # Errors
    /// A service that failed.
    pub async fn unwatch_all(&self, user: &UserId) -> Result<(), Failure> {
        let watched = connections::watched(&self.store, user).await?;
        let removes = watched.iter().flat_map(|(connection, channels)| {
            channels.iter().map(|channel| watchers::remove(&self.store, channel, connection))
        });
        try_join_all(removes).await?;
        Ok(())
    }

    /// Changes a group or a channel, or creates it. Counts in `conflicts` how often another writer was faster.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn change_group(
        &self,
        writer: Writer<'_>,
        (conversation_id, client_msg_id): (ConversationId, ClientMsgId),
        change: GroupChange,
        conflicts: &mut u64,
    ) -> Result<Changed, Failure> {
        if matches!(change, GroupChange::Restrict { .. }) && conversation_id.kind() == ConversationKind::Direct {
            let problem = "must be the id of a group or a channel: block the user instead";
            return Err(Refusal::bad_request("conversation_id", problem).into());
        }
        let content = Content::Group(change);
        let draft = Draft::new(conversation_id, writer.user.clone(), client_msg_id, content);
        log::append(self, writer, draft, None, conflicts).await
    }

    /// Makes the user a member of an open channel, or brings the user back to a group that the user has left. For a
    /// member, nothing changes. Counts in `conflicts` how often another writer was faster.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn join(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        conflicts: &mut u64,
    ) -> Result<Joined, Failure> {
        match conversation.kind() {
            ConversationKind::Group => group::join(self, user, conversation, conflicts).await,
            ConversationKind::Direct | ConversationKind::Channel => {
                let last_seq = channel::join(&self.store, self.now(), user, conversation, conflicts).await?;
                Ok(Joined { last_seq, entry: None })
            }
        }
    }

    /// Ends the user's membership. Returns the entry, which a channel does not have. Counts in `conflicts` how often
    /// another writer was faster.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn leave(
        &self,
        writer: Writer<'_>,
        request: LeaveRequest,
        conflicts: &mut u64,
    ) -> Result<Option<Appended>, Failure> {
        let LeaveRequest { conversation_id, client_msg_id } = request;
        match conversation_id.kind() {
            ConversationKind::Channel => {
                channel::leave(&self.store, writer.user, &conversation_id, conflicts).await?;
                Ok(None)
            }
            ConversationKind::Direct | ConversationKind::Group => {
                let client_msg_id = client_msg_id.ok_or_else(|| Refusal::bad_request("client_msg_id", "is missing"))?;
                let key = (conversation_id, client_msg_id);
                Ok(Some(self.change_group(writer, key, GroupChange::Leave, conflicts).await?.entry()?))
            }
        }
    }

    /// Sends the events of a new entry: to the other members, and to the sender's connections but `from`, which gets the
    /// reply. In a group above 32 members and in a channel, `fanout` does.
    pub async fn tell_appended(&self, appended: &Appended, from: Option<&Origin>) -> Vec<Delivered> {
        match &appended.concerned {
            Concerned::Audience(audience, marks) => {
                direct::tell_appended(self, appended, (audience, marks.as_ref()), from).await
            }
            Concerned::Group { member_count, tried } => {
                group::tell_appended(self, appended, *member_count, tried.as_ref()).await
            }
            Concerned::Channel => vec![],
        }
    }

    /// Raises the delivered mark to `seq`, or to the end of the user's row.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn ack(&self, user: &UserId, conversation: &ConversationId, seq: Seq) -> Result<Raised, Failure> {
        self.raise(user, conversation, seq, Mark::Delivered).await
    }

    async fn raise(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: Seq,
        mark: Mark,
    ) -> Result<Raised, Failure> {
        match conversation.kind() {
            ConversationKind::Direct => marks::raise(self, user, conversation, (seq, mark), async |row| Ok(row)).await,
            ConversationKind::Group => group::raise(self, user, conversation, (seq, mark)).await,
            // A channel's member has a read mark, in a row of another table.
            ConversationKind::Channel => Err(Refusal::NotMember.into()),
        }
    }

    /// Raises the read mark, and sends the receipts.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn read(
        &self,
        user: &UserId,
        from: Option<&Origin>,
        conversation: &ConversationId,
        seq: Seq,
    ) -> Result<(ReadResult, Vec<Delivered>), Failure> {
        match conversation.kind() {
            ConversationKind::Direct | ConversationKind::Group => {
                let raised = self.raise(user, conversation, seq, Mark::Read).await?;
                Ok((raised.result(), tell::read(self, &raised, from).await))
            }
            ConversationKind::Channel => channel::read(self, user, from, conversation, seq).await,
        }
    }

    /// Sends the receipts of delivered marks: not twice within a minute for the repetition of one.
    pub async fn tell_delivered(&self, raised: Vec<Raised>) -> Vec<Delivered> {
        tell::delivered(self, raised).await
    }

    /// Sends `typing` to the other members, unless the group is large.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn tell_typing(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        from: Option<&Origin>,
    ) -> Result<Vec<Delivered>, Failure> {
        let others = match conversation.kind() {
            ConversationKind::Direct => direct::told_of_typing(&self.store, user, conversation).await?,
            ConversationKind::Group => group::told_of_typing(&self.store, user, conversation, self.now()).await?,
            ConversationKind::Channel => {
                return Err(Refusal::bad_request("conversation_id", "must not be a channel").into());
            }
        };
        Ok(tell::typing(self, user, conversation, &others, (None, from)).await)
    }

    /// Sends `typing` with the text so far to the other members. Nothing without a conversation, or sooner after the
    /// last text there than the pause.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn tell_text(&self, service: &UserId, typed: TypingText) -> Result<Vec<Delivered>, Failure> {
        let TypingText { target, text } = typed;
        let conversation = conversation_for(service, &target);
        if !self.texts.admit(&conversation, self.now()) {
            return Ok(vec![]);
        }
        let others = match (&target, conversation.kind()) {
            (Target::User(user), _) => direct::told_of_text(&self.store, user, &conversation).await?,
            // As for `send`: a service names the user.
            (Target::Conversation(_), ConversationKind::Direct) => return Err(Refusal::NotMember.into()),
            (Target::Conversation(_), ConversationKind::Group) => {
                group::told_of_typing(&self.store, service, &conversation, self.now()).await?
            }
            (Target::Conversation(_), ConversationKind::Channel) => {
                return Err(Refusal::bad_request("conversation_id", "must not be a channel").into());
            }
        };
        Ok(tell::typing(self, service, &conversation, &others, (Some(text), None)).await)
    }

    /// Sends an event about the user's own affairs to the user's connections but `from`.
    pub async fn tell_own(&self, user: &UserId, event: ServerEvent, from: Option<&Origin>) -> Vec<Delivered> {
        tell::own(self, user, event, from).await
    }

    /// Sends an event to one of the user's devices.
    pub async fn tell_device(&self, user: &UserId, device: &DeviceId, event: &ServerEvent) -> Delivered {
        self.fanout.deliver_to_device(self.now(), user, device, event).await
    }

    /// Reads the user's own row of a conversation: one call.
    ///
    /// # Errors
    /// A row or a service that can't be read.
    pub async fn access(&self, user: &UserId, conversation: &ConversationId) -> Result<Access, Failure> {
        access::own(&self.store, user, conversation).await
    }

    /// Decides whether the user may upload this kind for this target, with the access of [`access`](Self::access). `send`
    /// decides everything else.
    ///
    /// # Errors
    /// `not_member`, `forbidden`, `encryption_required`, `bad_request`, or a service that failed.
    pub async fn check_upload(
        &self,
        access: &Access,
        user: &UserId,
        target: &Target,
        kind: &Kind,
    ) -> Result<(), Failure> {
        let encryption = self.limits.encryption;
        access.check_upload(user, target, kind, (encryption, self.now()))?;
        if let (Access::Group(_), Target::Conversation(id)) = (access, target)
            && *kind != Kind::Sealed
            && encryption.is_on()
        {
            heads::get(&self.store, id).await?.ok_or(Refusal::NotMember)?.check_clear(encryption, user)?;
        }
        Ok(())
    }

    /// Returns which entries a member, or a former member, sees.
    ///
    /// # Errors
    /// A user who never was a member gets the same refusal as for a conversation that does not exist.
    pub async fn visible(&self, user: &UserId, conversation: &ConversationId) -> Result<Sight, Failure> {
        access::visible(&self.store, user, conversation).await
    }

    /// Returns the same with the pinned messages of a group or a channel that the user sees, the last pinned first.
    ///
    /// # Errors
    /// As [`Actions::visible`].
    pub async fn visible_with_pins(
        &self,
        user: &UserId,
        conversation: &ConversationId,
    ) -> Result<(Sight, Vec<Seq>), Failure> {
        access::visible_with_pins(&self.store, user, conversation).await
    }

    /// Returns what the user sees of entries that were read after `sight`.
    ///
    /// # Errors
    /// As [`Actions::visible`].
    pub async fn seen_again(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        sight: Sight,
        entries: &[&Entry],
    ) -> Result<Sight, Failure> {
        access::seen_again(&self.store, user, conversation, sight, entries).await
    }

    /// Returns the oldest messages that no device of the user has acknowledged, as many as fit a frame.
    ///
    /// # Errors
    /// A service that failed, where no conversation could be read.
    pub async fn backlog(&self, user: &UserId, before: PageBefore) -> Result<DrainPage, Failure> {
        backlog::backlog(&self.store, user, before).await
    }

    /// Stores a user's report to the operator.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn report(&self, user: &UserId, request: ReportRequest) -> Result<ReportResult, Failure> {
        report::report(self, user, request).await
    }

    /// Returns profiles of users, and looks of groups and channels.
    ///
    /// # Errors
    /// `forbidden` where there are none, or a service that failed.
    pub async fn profiles(&self, user: &UserId, request: &ProfilesRequest) -> Result<ProfilesResult, Failure> {
        profiles::list(self, user, request).await
    }

    /// Changes the user's own profile.
    ///
    /// # Errors
    /// `forbidden` where users write none, `rejected`, `conflict`, or a service that failed.
    pub async fn change_own_profile(&self, user: &UserId, set: &ProfileChange) -> Result<ProfileResult, Failure> {
        self.limits.profiles.check_own()?;
        hook::judge_profile(self, user, set).await?;
        profiles::change(self, user, set, WrittenAt::Now).await
    }

    /// Changes the profile of a user or a service for the team's servers.
    ///
    /// # Errors
    /// `forbidden` where there are none, `conflict`, or a service that failed.
    pub async fn change_profile(
        &self,
        user: &UserId,
        set: &ProfileChange,
        written_at: WrittenAt,
    ) -> Result<ProfileResult, Failure> {
        self.limits.profiles.check_on()?;
        profiles::change(self, user, set, written_at).await
    }

    /// Sets what the user wants for a conversation or for another user.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn set(&self, user: &UserId, wanted: &Settings) -> Result<(), Failure> {
        set::set(self, user, wanted).await
    }

    /// Has a channel's entries posted to the connection, unless it has too many subscribers.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn watch(
        &self,
        user: &UserId,
        connection: &Connection,
        channel: &ConversationId,
    ) -> Result<WatchResult, Failure> {
        match channel.kind() {
            ConversationKind::Channel => channel::watch(&self.store, self.now(), user, connection, channel).await,
            ConversationKind::Direct | ConversationKind::Group => {
                Err(Refusal::bad_request("conversation_id", "must be a channel").into())
            }
        }
    }

    /// Ends that.
    ///
    /// # Errors
    /// A service that failed.
    pub async fn unwatch(
        &self,
        user: &UserId,
        connection: &ConnectionId,
        channel: &ConversationId,
    ) -> Result<(), Failure> {
        channel::unwatch(&self.store, user, connection, channel).await
    }

    /// Follows a log that has moved: brings a group's members to its end, or sends a channel's entries to its subscribers.
    /// `record`: the stream record that is the cause. Another run for the same record repeats the posts of this one to
    /// members who have not acknowledged.
    ///
    /// # Errors
    /// A head, a member list or entries that were not read. A member's row is no error of the group.
    pub async fn follow(&self, conversation: &ConversationId, record: Option<u64>) -> Result<Reconciled, Failure> {
        let mut done = match conversation.kind() {
            ConversationKind::Channel => channel::show(self, conversation).await?,
            ConversationKind::Direct | ConversationKind::Group => {
                group::reconcile_and_settle(self, conversation, record).await?
            }
        };
        log::second_look(&self.store, conversation, &mut done).await;
        Ok(done)
    }

    /// Brings every member's row of a group to the end of its log.
    ///
    /// # Errors
    /// A head, a member list or entries that were not read.
    pub async fn reconcile(&self, group: &ConversationId) -> Result<Reconciled, Failure> {
        group::reconcile_and_settle(self, group, None).await
    }

    /// Brings the user's own row of a group to the end of its log. `row`: as it was read. Returns the row as it is then.
    ///
    /// # Errors
    /// A service that failed.
    pub async fn touch(
        &self,
        user: &UserId,
        group: &ConversationId,
        row: Option<Membership>,
    ) -> Result<Option<Membership>, Failure> {
        group::touch(self, user, group, row).await
    }

    /// Writes the rows of a group's member list that differ from its log, and reconciles.
    ///
    /// # Errors
    /// A refusal, or a service that failed.
    pub async fn repair(&self, group: &ConversationId, log: LogSoFar) -> Result<Repaired, Failure> {
        match group.kind() {
            ConversationKind::Group => group::repair(self, group, log).await,
            ConversationKind::Direct | ConversationKind::Channel => {
                Err(Refusal::bad_request("conversation_id", "must be the id of a group").into())
            }
        }
    }
}

/// Checks whether a conversation can be sealed.
///
/// # Errors
/// `bad_request` for a channel.
pub fn check_sealable(conversation: &ConversationId) -> Result<(), Refusal> {
    match conversation.kind() {
        ConversationKind::Direct | ConversationKind::Group => Ok(()),
        ConversationKind::Channel => {
            Err(Refusal::bad_request("conversation_id", "must not be a channel: its entries are not encrypted"))
        }
    }
}

/// Returns the commit of an `add` or a `remove`.
pub fn commit_of(keys: Option<Box<Rekeyed>>) -> Option<Box<NewCommit>> {
    let Rekeyed { epoch, commit, welcome, group_info, tree } = *keys?;
    Some(Box::new(NewCommit { epoch, commit: Some(commit), welcome, group_info, tree, removes: vec![] }))
}

/// Checks whether the author may write in the clear in a group or a channel. A channel is never sealed.
pub(crate) fn check_clear(actions: &Actions, draft: &Draft, head: &Head) -> Result<(), Refusal> {
    match draft.conversation_id.kind() {
        ConversationKind::Channel => Ok(()),
        ConversationKind::Direct | ConversationKind::Group => {
            head.check_clear(actions.limits.encryption, &draft.sender_id)
        }
    }
}

/// Gives sealed media the length that their id ends with. No upload has any other.
fn measured(media: Attached) -> Attached {
    match media {
        Attached::Clear(media) => Attached::Clear(media),
        Attached::Sealed(SealedMedia { media_id, .. }) => {
            Attached::Sealed(SealedMedia { bytes: sealed_bytes(&media_id), media_id })
        }
    }
}

fn check_mentions(kind: ConversationKind, mentions: &[UserId]) -> Result<(), Refusal> {
    match kind {
        ConversationKind::Direct if !mentions.is_empty() => {
            Err(Refusal::bad_request("mentions", "must be left out: this is a direct conversation"))
        }
        ConversationKind::Channel if mentions.iter().any(|user| user.as_str() == "*") => {
            Err(Refusal::bad_request("mentions", "must name members: no message of a channel mentions all"))
        }
        ConversationKind::Direct | ConversationKind::Group | ConversationKind::Channel => Ok(()),
    }
}
