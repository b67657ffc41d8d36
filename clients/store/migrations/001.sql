CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
-- A `num` is never used again, because the keys of a conversation's messages contain it.
-- untold_seq: a read mark that the server does not know yet. listed: the row of the chat list. channel: that of the list
-- of channels.
CREATE TABLE conversation(num INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, held_seq INT, untold_seq INT,
  sent_at INT, listed TEXT, channel TEXT, floor_seq INT NOT NULL DEFAULT 0) STRICT;
CREATE INDEX conversation_list ON conversation(sent_at DESC, id) WHERE sent_at IS NOT NULL;
-- key: num * 4294967296 + seq. A page is one range of keys.
CREATE TABLE message(key INTEGER PRIMARY KEY, sent_at INT, value TEXT NOT NULL) STRICT;
-- A search goes from the newest message to older ones. Most searches read few entries of this index.
CREATE INDEX message_sent ON message(sent_at DESC) WHERE sent_at IS NOT NULL;
-- rowid: the key of the message. `ascii` takes each character outside of ASCII as a part of a word. With `secure-delete`,
-- `detail=none` loses a message in its word's list after another one changed.
CREATE VIRTUAL TABLE search USING fts5(words, content='', columnsize=0, detail=column, tokenize='ascii');
INSERT INTO search(search, rank) VALUES('secure-delete', 1);
CREATE TABLE span(num INT NOT NULL, from_seq INT NOT NULL, to_seq INT NOT NULL, PRIMARY KEY(num, from_seq)) STRICT,
  WITHOUT ROWID;
CREATE TABLE member(num INT NOT NULL, user_id TEXT NOT NULL, role TEXT, joined_seq INT, delivered_seq INT NOT NULL,
  read_seq INT NOT NULL, PRIMARY KEY(num, user_id)) STRICT, WITHOUT ROWID;
-- Files outside of the store: those of messages, and those that the client must still remove. `.` begins a path that is
-- relative to the store's folder.
CREATE TABLE place(key INTEGER PRIMARY KEY, path TEXT NOT NULL) STRICT;
CREATE TABLE unneeded(path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE draft(target TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- refused: the code of the server's refusal for good.
CREATE TABLE outbox(n INTEGER PRIMARY KEY AUTOINCREMENT, client_msg_id TEXT NOT NULL, request TEXT NOT NULL,
  refused TEXT) STRICT;
CREATE INDEX outbox_id ON outbox(client_msg_id);
PRAGMA application_id = 0x50474E31;
