//! Every action of the protocol, once. Routes, dispatch, the contract, cold starts and the tables in the docs are made from this
//! list or checked against it. A file of each says what its request may say, how it is read, and what it answers.

use serde::Serialize;
use serde_json::Value;

use crate::fields::Fields;
use crate::refusal::Refusal;

mod ack;
mod add;
mod channels;
mod claim_keys;
mod commit;
mod create;
mod delete;
mod device;
mod download;
mod drain;
mod edit;
mod group_info;
mod history;
mod inbox;
mod join;
mod leave;
mod list_keys;
mod members;
mod pin;
mod ping;
mod presence;
mod profile;
mod profiles;
mod publish_keys;
mod react;
mod reactions;
mod read;
mod receipts;
mod remove;
mod remove_keys;
mod report;
mod restrict;
mod role;
mod send;
mod settings;
mod typing;
mod unwatch;
mod update;
mod upload;
mod uploaded;
mod watch;

pub use ack::*;
pub use add::*;
pub use channels::*;
pub use claim_keys::*;
pub use commit::*;
pub use create::*;
pub use delete::*;
pub use device::*;
pub use download::*;
pub use drain::*;
pub use edit::*;
pub use group_info::*;
pub use history::*;
pub use inbox::*;
pub use join::*;
pub use leave::*;
pub use list_keys::*;
pub use members::*;
pub use pin::*;
pub use ping::*;
pub use presence::*;
pub use profile::*;
pub use profiles::*;
pub use publish_keys::*;
pub use react::*;
pub use reactions::*;
pub use read::*;
pub use receipts::*;
pub use remove::*;
pub use remove_keys::*;
pub use report::*;
pub use restrict::*;
pub use role::*;
pub use send::*;
pub use settings::*;
pub use typing::*;
pub use unwatch::*;
pub use update::*;
pub use upload::*;
pub use uploaded::*;
pub use watch::*;

/// An action, for whoever has to do something for each of them.
#[derive(Clone, Copy, Debug)]
pub struct ActionSpec {
    /// The route, and the name in every frame about it.
    pub name: &'static str,
    /// The function that serves it: a folder of `functions/`.
    pub function: &'static str,
    /// A request.
    pub example: &'static str,
    /// Whether a request has a reply. Without one, the server sends no frame, not even an error.
    pub replies: bool,
}

/// The actions that have a route over HTTP too.
pub const HTTP_ACTIONS: [&str; 10] =
    ["send", "edit", "delete", "react", "read", "ack", "drain", "inbox", "history", "profiles"];

/// A request that has a reply.
pub trait Ask: Into<Action> {
    /// The reply's result.
    type Result: Send + 'static;

    /// Returns the result of a reply to this action, and `None` for a reply to another one.
    fn result(reply: Reply) -> Option<Self::Result>;
}

macro_rules! registry {
    ($($(#[$doc:meta])* $name:literal: $variant:ident($request:ty) $(-> $result:ty)?, in $function:literal, like $example:literal;)+) => {
        /// A request of a client, by its action.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "action", rename_all = "snake_case")]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum Action {
            $($(#[$doc])* $variant($request),)+
        }

        impl Action {
            /// The name of the route and of the answers to it.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                }
            }

            pub(crate) fn parse(name: &str, fields: &Fields) -> Result<Self, Refusal> {
                match name {
                    $($name => <$request>::parse(fields).map(Self::$variant),)+
                    _ => Err(Refusal::UnknownAction),
                }
            }
        }

        /// The result of an action that succeeded.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        // The frame around it says which action it answers.
        #[cfg_attr(feature = "schema", schemars(!untagged, tag = "action", content = "result", rename_all = "snake_case"))]
        pub enum Reply {
            $($($variant($result),)?)+
        }

        impl Reply {
            /// Reads the result of an answer to the action of this name.
            ///
            /// # Errors
            /// It is not of the shape that the action's results have, or there is no such action.
            pub fn parse(action: &str, result: Value) -> Result<Self, serde_json::Error> {
                match action {
                    $($($name => serde_json::from_value::<$result>(result).map(Self::$variant),)?)+
                    _ => Err(serde::de::Error::custom("no such action")),
                }
            }
        }

        $($(impl From<$result> for Reply {
            fn from(result: $result) -> Self {
                Self::$variant(result)
            }
        })?)+

        $(impl From<$request> for Action {
            fn from(request: $request) -> Self {
                Self::$variant(request)
            }
        })+

        $($(impl Ask for $request {
            type Result = $result;

            fn result(reply: Reply) -> Option<$result> {
                if let Reply::$variant(result) = reply { Some(result) } else { None }
            }
        })?)+

        /// All of them, in the order of the docs.
        pub const ACTIONS: &[ActionSpec] =
            &[$(ActionSpec {
                name: $name,
                function: $function,
                example: $example,
                replies: $(!stringify!($result).is_empty() ||)? false,
            },)+];
    };
}

registry! {
    /// Appends a message to a conversation. Sent again with the same `client_msg_id` and body: the same answer.
    "send": Send(SendRequest) -> SendResult, in "send",
        like r#"{"action":"send","id":"r1","to":"bob","client_msg_id":"7b0e","kind":"text","body":"hi"}"#;
    /// Replaces the text of one of the caller's messages.
    "edit": Edit(EditRequest) -> EditResult, in "send",
        like r#"{"action":"edit","id":"r1","conversation_id":"dm_x","seq":42,"client_msg_id":"7b0f","body":"hello"}"#;
    /// Deletes one of the caller's messages, for all members.
    "delete": Delete(DeleteRequest) -> DeleteResult, in "send",
        like r#"{"action":"delete","id":"r1","conversation_id":"dm_x","seq":42,"client_msg_id":"7b10"}"#;
    /// Adds the caller's reaction to a message, replaces the earlier one, or removes it.
    "react": React(ReactRequest) -> ReactResult, in "send",
        like r#"{"action":"react","id":"r1","conversation_id":"dm_x","seq":42,"client_msg_id":"7b11","emoji":"👍"}"#;
    /// Pins a message for all members, or takes the pin off.
    "pin": Pin(PinRequest) -> PinResult, in "send",
        like r#"{"action":"pin","id":"r1","conversation_id":"dm_x","seq":42,"client_msg_id":"7b13","pinned":true}"#;
    /// "This device holds everything up to here": two grey ticks at the sender's. Idempotent, never moves back.
    "ack": Ack(AckRequest) -> AckResult, in "drain",
        like r#"{"action":"ack","id":"r1","up_to":[{"conversation_id":"dm_x","seq":42}]}"#;
    /// Returns the messages that no device of the user has acknowledged, page by page, oldest first.
    "drain": Drain(DrainRequest) -> DrainResult, in "drain",
        like r#"{"action":"drain","id":"r1"}"#;
    /// "The user has read everything up to here", and so holds it: blue ticks. Idempotent, never moves back.
    "read": Read(ReadRequest) -> ReadResult, in "read",
        like r#"{"action":"read","id":"r1","conversation_id":"dm_x","seq":42}"#;
    /// The chat list, most recently active first.
    "inbox": Inbox(InboxRequest) -> InboxResult, in "inbox",
        like r#"{"action":"inbox","id":"r1","limit":50,"since":"2025-11-20T10:00:00.123Z"}"#;
    /// Messages of a conversation, and how far its members have come.
    "history": History(HistoryRequest) -> HistoryResult, in "inbox",
        like r#"{"action":"history","id":"r1","conversation_id":"dm_x"}"#;
    /// Mutes or archives a conversation; blocks a user, which ends messages and ticks between the two.
    "settings": Settings(Settings) -> SettingsResult, in "read",
        like r#"{"action":"settings","id":"r1","conversation_id":"dm_x","set":{"muted_until":"forever"}}"#;
    /// Tells the operator about messages, a conversation or a user. Safe to repeat.
    "report": Report(ReportRequest) -> ReportResult, in "inbox",
        like r#"{"action":"report","id":"r1","conversation_id":"dm_x","seqs":[42],"reason":"spam"}"#;
    /// The names and data of users, and the looks of groups and channels.
    "profiles": Profiles(ProfilesRequest) -> ProfilesResult, in "inbox",
        like r#"{"action":"profiles","id":"r1","user_ids":["alice","bob"]}"#;
    /// Changes the user's own name and data.
    "profile": Profile(ProfileRequest) -> ProfileResult, in "group",
        like r#"{"action":"profile","id":"r1","set":{"name":"Alice"}}"#;
    /// Registers the device of this connection for notifications, or takes it out.
    "device": Device(DeviceRequest) -> DeviceResult, in "device",
        like r#"{"action":"device","id":"r1","platform":"apns","token":"9f2c51d0"}"#;
    /// Where to put the bytes of an image, a file or a voice note that is to be sent.
    "upload": Upload(UploadRequest) -> UploadResult, in "media",
        like r#"{"action":"upload","id":"r1","to":"bob","kind":"image","mime":"image/jpeg","bytes":284113,"sha256":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="}"#;
    /// "The bytes are there": they are looked at, and can be sent then. Idempotent.
    "uploaded": Uploaded(UploadedRequest) -> UploadedResult, in "media",
        like r#"{"action":"uploaded","id":"r1","media_id":"m_3kx4"}"#;
    /// Where to get the bytes of what messages carry.
    "download": Download(DownloadRequest) -> DownloadResult, in "media",
        like r#"{"action":"download","id":"r1","media_ids":["m_3kx4"]}"#;
    /// Makes a group or a channel.
    "create": Create(CreateRequest) -> CreateResult, in "group",
        like r#"{"action":"create","id":"r1","client_msg_id":"c1","title":"Trip","members":["bob","carol"]}"#;
    /// Adds members to a group.
    "add": Add(AddRequest) -> AddResult, in "group",
        like r#"{"action":"add","id":"r1","conversation_id":"gr_x","client_msg_id":"c2","members":["dave"]}"#;
    /// Removes a member from a group.
    "remove": Remove(RemoveRequest) -> RemoveResult, in "group",
        like r#"{"action":"remove","id":"r1","conversation_id":"gr_x","client_msg_id":"c3","user_id":"dave"}"#;
    /// Leaves a group or a channel.
    "leave": Leave(LeaveRequest) -> LeaveResult, in "group",
        like r#"{"action":"leave","id":"r1","conversation_id":"gr_x","client_msg_id":"c4"}"#;
    /// Says what a member of a group may do.
    "role": Role(RoleRequest) -> RoleResult, in "group",
        like r#"{"action":"role","id":"r1","conversation_id":"gr_x","client_msg_id":"c5","user_id":"bob","role":"admin"}"#;
    /// Lets a member of a group or a channel only read until a time, or ends that.
    "restrict": Restrict(RestrictRequest) -> RestrictResult, in "group",
        like r#"{"action":"restrict","id":"r1","conversation_id":"gr_x","client_msg_id":"c7","user_id":"bob","until":"forever"}"#;
    /// Changes what a group is called, and what its members may do.
    "update": Update(UpdateRequest) -> UpdateResult, in "group",
        like r#"{"action":"update","id":"r1","conversation_id":"gr_x","client_msg_id":"c6","title":"Sea"}"#;
    /// Lists the members of a group.
    "members": Members(MembersRequest) -> MembersResult, in "group",
        like r#"{"action":"members","id":"r1","conversation_id":"gr_x","limit":100}"#;
    /// How far the other members of a group have come.
    "receipts": Receipts(ReceiptsRequest) -> ReceiptsResult, in "group",
        like r#"{"action":"receipts","id":"r1","conversation_id":"gr_x"}"#;
    /// Lists the reactions to a message, with their users.
    "reactions": Reactions(ReactionsRequest) -> ReactionsResult, in "group",
        like r#"{"action":"reactions","id":"r1","conversation_id":"gr_x","seq":42}"#;
    /// Joins a channel, or rejoins a group that the caller left. Safe to repeat.
    "join": Join(JoinRequest) -> JoinResult, in "group",
        like r#"{"action":"join","id":"r1","conversation_id":"ch_x"}"#;
    /// The channels whose member the user is, with what of each is unread.
    "channels": Channels(ChannelsRequest) -> ChannelsResult, in "inbox",
        like r#"{"action":"channels","id":"r1"}"#;
    /// Has a channel's entries come over this connection as they are written.
    "watch": Watch(WatchRequest) -> WatchResult, in "connect",
        like r#"{"action":"watch","id":"r1","conversation_id":"ch_x"}"#;
    /// Has them come no longer.
    "unwatch": Unwatch(UnwatchRequest) -> UnwatchResult, in "connect",
        like r#"{"action":"unwatch","id":"r1","conversation_id":"ch_x"}"#;
    /// The user is writing. Neither stored nor answered.
    "typing": Typing(TypingRequest), in "connect",
        like r#"{"action":"typing","conversation_id":"dm_x"}"#;
    /// Returns which of these users are online, and when the others last were.
    "presence": Presence(PresenceRequest) -> PresenceResult, in "connect",
        like r#"{"action":"presence","id":"r1","user_ids":["bob"]}"#;
    /// Publishes the keys with which others encrypt for the device of this connection. Safe to repeat.
    "publish_keys": PublishKeys(PublishKeysRequest) -> PublishKeysResult, in "keys",
        like r#"{"action":"publish_keys","id":"r1","credential":"eyJ2IjoxfQ==","key_packages":[{"data":"AAEABQABAAEg","expires_at":"2027-01-19T10:00:00.000Z"}],"last_resort":{"data":"AAEABQABAAEh","expires_at":"2027-11-26T10:00:00.000Z"}}"#;
    /// Takes a key package of each device of these users. Sent again with the same `claim_id` and users: the same reply.
    "claim_keys": ClaimKeys(ClaimKeysRequest) -> ClaimKeysResult, in "keys",
        like r#"{"action":"claim_keys","id":"r1","claim_id":"k1","users":["bob","alice"]}"#;
    /// The devices of the user that have keys.
    "list_keys": ListKeys(ListKeysRequest) -> ListKeysResult, in "keys",
        like r#"{"action":"list_keys","id":"r1"}"#;
    /// Ends the keys of one of the user's devices. Safe to repeat.
    "remove_keys": RemoveKeys(RemoveKeysRequest) -> RemoveKeysResult, in "keys",
        like r#"{"action":"remove_keys","id":"r1","device_id":"firefox-7f3a"}"#;
    /// Changes the keys of a sealed conversation, or seals a plain one. Sent again with the same fields: the same reply.
    "commit": Commit(CommitRequest) -> CommitResult, in "keys",
        like r#"{"action":"commit","id":"r1","to":"bob","client_msg_id":"7b12","epoch":0,"welcome":"AAEAAw==","group_info":"AAEABA==","tree":"QAEB"}"#;
    /// The newest keys of a sealed conversation, with which a device joins by itself.
    "group_info": GroupInfo(GroupInfoRequest) -> GroupInfoResult, in "keys",
        like r#"{"action":"group_info","id":"r1","conversation_id":"dm_x"}"#;
    /// Whether anything is pending; also keeps an idle socket open.
    "ping": Ping(PingRequest) -> PingResult, in "drain",
        like r#"{"action":"ping","id":"r1"}"#;
}

macro_rules! served {
    ($($function:literal: $name:ident { $($variant:ident($request:ty),)+ })+) => {
        $(
            /// The actions that this function serves.
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub enum $name {
                $($variant($request),)+
            }

            /// # Errors
            /// `unknown_action`: another function serves it.
            impl TryFrom<Action> for $name {
                type Error = Refusal;

                fn try_from(action: Action) -> Result<Self, Refusal> {
                    match action {
                        $(Action::$variant(request) => Ok(Self::$variant(request)),)+
                        _ => Err(Refusal::UnknownAction),
                    }
                }
            }
        )+

        /// The functions that serve an action.
        #[cfg(test)]
        fn served_by(action: &Action) -> Vec<&'static str> {
            let all = [$(($function, $name::try_from(action.clone()).is_ok()),)+];
            all.into_iter().filter(|(_, serves)| *serves).map(|(function, _)| function).collect()
        }
    };
}

served! {
    "send": SendAction {
        Send(SendRequest), Edit(EditRequest), Delete(DeleteRequest), React(ReactRequest),
        Pin(PinRequest),
    }
    "drain": DrainAction { Drain(DrainRequest), Ack(AckRequest), Ping(PingRequest), }
    "read": ReadAction { Read(ReadRequest), Settings(Settings), }
    "inbox": InboxAction {
        Inbox(InboxRequest), Channels(ChannelsRequest), History(HistoryRequest), Report(ReportRequest),
        Profiles(ProfilesRequest),
    }
    "device": DeviceAction { Device(DeviceRequest), }
    "keys": KeysAction {
        PublishKeys(PublishKeysRequest), ClaimKeys(ClaimKeysRequest), ListKeys(ListKeysRequest),
        RemoveKeys(RemoveKeysRequest), Commit(CommitRequest), GroupInfo(GroupInfoRequest),
    }
    "media": MediaAction { Upload(UploadRequest), Uploaded(UploadedRequest), Download(DownloadRequest), }
    "group": GroupAction {
        Create(CreateRequest), Add(AddRequest), Remove(RemoveRequest), Join(JoinRequest), Leave(LeaveRequest),
        Role(RoleRequest), Restrict(RestrictRequest), Update(UpdateRequest), Members(MembersRequest), Receipts(ReceiptsRequest),
        Reactions(ReactionsRequest), Profile(ProfileRequest),
    }
    "connect": ConnectAction {
        Presence(PresenceRequest), Typing(TypingRequest), Watch(WatchRequest), Unwatch(UnwatchRequest),
    }
    // For services, without a route.
    "admin": ServiceAction {
        Send(SendRequest), Create(CreateRequest), Add(AddRequest), Remove(RemoveRequest), Restrict(RestrictRequest),
        Update(UpdateRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    #[test]
    fn each_example_is_a_request_of_its_action() {
        for ActionSpec { name, example, .. } in ACTIONS {
            let request = Request::parse(example).unwrap();
            assert_eq!(request.action.name(), *name);
            // The tag that a client writes is the name that the server reads.
            let frame = serde_json::to_value(&request.action).unwrap();
            assert_eq!(frame["action"], *name);
            assert_eq!(Request::parse(&frame.to_string()).unwrap().action, request.action);
        }
    }
    #[test]
    fn each_action_is_in_the_enum_of_its_function_and_in_no_other() {
        for ActionSpec { example, function, .. } in ACTIONS {
            let served = served_by(&Request::parse(example).unwrap().action);
            let by_route: Vec<_> = served.into_iter().filter(|function| *function != "admin").collect();
            assert_eq!(by_route, [*function], "{example}");
        }
    }
}
