export type { Forwarded, Sent } from "./actions.ts";
export type { Filter, ListSnapshot } from "./chat/conversations.ts";
export type { Item, MessageItem, Progress, Refused, Reply, Run, Signal } from "./chat/item.ts";
export { mayPin, mayReact, mayRemove, mayWrite, moderates } from "./chat/rights.ts";
export type { MemberRow, RosterSnapshot } from "./chat/roster.ts";
export { type ChatRow, emptyRow, type Line, type Lock, type Rules } from "./chat/row.ts";
export type { Screen } from "./chat/views.ts";
export type { At } from "./chat/window.ts";
export { Chat } from "./chat.ts";
export {
  type Config,
  defaultTiming,
  type Encryption,
  type OpenSocket,
  type Socket,
  type Timing,
  type TokenNeed,
} from "./config.ts";
export { PigeonholeError, type PigeonholeErrorCode } from "./errors.ts";
export type { ClientEvent, State, Unreadable, Why } from "./events.ts";
export type {
  AddResult,
  Channel,
  ChannelsResult,
  Conversation,
  ConversationSettings,
  Data,
  GroupMember,
  HistoryResult,
  InboxResult,
  JoinResult,
  LastMessage,
  LeaveResult,
  Media,
  Member,
  MembersResult,
  Message,
  MutedUntil,
  Presence,
  PresenceResult,
  Profile,
  ProfileChange,
  ProfilesResult,
  Reaction,
  ReactionsResult,
  Reactor,
  ReadResult,
  ReceiptsResult,
  SendResult,
  System,
  UserSettings,
  WatchResult,
} from "./frames.ts";
export { limits } from "./frames.ts";
export { type MediaDraft, type MediaInfo, type MediaKind, nameOf } from "./media.ts";
export { type OnceMessage, sendOnce } from "./once.ts";
export { open, Pigeonhole } from "./pigeonhole.ts";
export {
  counts,
  type Draft,
  type GroupInfo,
  hasMembers,
  isChannel,
  isGroup,
  isService,
  type NewGroup,
  type Page,
  type Receipt,
  type ReceiptKind,
  type Registration,
  type Report,
  type ReportReason,
  type Role,
  type Settings,
  type Side,
  type Typing,
} from "./protocol.ts";
export type {
  Queued,
  QueuedMessage,
  QueuedRequest,
  Target,
  Upload,
} from "./saved.ts";
export type { Stats } from "./session/core.ts";
export type { Database, Key, Mode, Range, Storage, Table, Transaction } from "./store/database.ts";
export { indexedDbStorage } from "./store/indexeddb.ts";
export { type KeyValueStore, keyValueStorage } from "./store/key-value.ts";
export { memoryStorage } from "./store/memory.ts";
export { type Changing, ChatList, MessagesView, Roster, View } from "./view.ts";
export { overHttp } from "./ways.ts";
