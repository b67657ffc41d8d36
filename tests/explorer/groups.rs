//! Invariants of a group at any moment: its rows are the result of replaying its log, here by other code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::invariants::{Held, Tables, counts, ensure, is_deleted, number, string};

/// The author of an operator's deletes.
const OPERATOR: &str = "@system";

/// The first and last entry of a membership, and the first visible entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) joined: u64,
    pub(crate) first: u64,
    pub(crate) left: Option<u64>,
}

/// A log, gone over up to some entry.
#[derive(Debug, Default)]
struct Folded {
    /// By member.
    roles: BTreeMap<String, &'static str>,
    intervals: BTreeMap<String, Vec<Interval>>,
    /// How often a user left by themselves since they last came by themselves.
    leaves: BTreeMap<String, u64>,
    /// Members who may only read.
    restricted: BTreeSet<String>,
}

pub(crate) fn system(entry: &Value) -> Value {
    entry["system"].as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
}

impl Tables {
    fn folded(&self, upto: u64) -> Result<Folded, String> {
        let mut folded = Folded::default();
        for entry in self.messages.iter().filter(|entry| number(entry, "seq") <= upto) {
            folded.step(entry)?;
        }
        Ok(folded)
    }

    /// When the user was a member, by the log.
    pub(crate) fn intervals(&self, user: &str) -> Vec<Interval> {
        self.folded(u64::MAX).unwrap().intervals.remove(user).unwrap_or_default()
    }

    /// Others' entries of all times that the user was a member.
    fn owed_in_group(&self, user: &str) -> Vec<u64> {
        let times = self.intervals(user);
        let is_of = |seq: u64| times.iter().any(|time| (time.joined..=time.left.unwrap_or(u64::MAX)).contains(&seq));
        self.by_others(user).filter(|seq| is_of(*seq)).collect()
    }

    /// Returns the other users' entries that one of the user's devices must receive.
    pub(crate) fn owed(&self, user: &str) -> Vec<u64> {
        if self.heads.is_empty() { self.by_others(user).collect() } else { self.owed_in_group(user) }
    }

    pub(crate) fn check_group(&self, before: &Self, held: &Held) -> Result<(), String> {
        self.group_is_its_log()?;
        self.epochs()?;
        for row in &self.inbox {
            self.view_is_a_fold(row)?;
            self.acknowledged_in_group(row, held)?;
        }
        for (user, held) in held {
            let intervals = self.intervals(user);
            let sees =
                |seq: u64| intervals.iter().any(|time| (time.first..=time.left.unwrap_or(u64::MAX)).contains(&seq));
            let outside: Vec<_> = held.iter().filter(|seq| !sees(**seq)).collect();
            ensure!(outside.is_empty(), "{user} got {outside:?}, and sees {intervals:?}");
        }
        self.risen(before)
    }

    /// The entry with which the user left that saw this one, if they have.
    fn left_with(&self, user: &str, seq: u64) -> Option<u64> {
        let intervals = self.intervals(user);
        let sees = |time: &Interval| (time.first..=time.left.unwrap_or(u64::MAX)).contains(&seq);
        let open = intervals.iter().any(|time| sees(time) && time.left.is_none());
        if open { None } else { intervals.into_iter().rfind(sees).and_then(|time| time.left) }
    }

    /// Returns the changes of a message that the user does not see.
    fn changes_after_leave(&self, user: &str, shown: &Value) -> Vec<&Value> {
        let (seq, about) = (number(shown, "seq"), shown["target_seq"].as_u64().unwrap_or(number(shown, "seq")));
        let Some(left) = self.left_with(user, seq) else { return vec![] };
        let later = |entry: &&Value| entry["target_seq"] == about && number(entry, "seq") > left;
        self.messages.iter().filter(later).collect()
    }

    pub(crate) fn is_changed_after_leave(&self, user: &str, shown: &Value) -> bool {
        !self.changes_after_leave(user, shown).is_empty()
    }

    /// A former member is shown nothing that came of a message after their leave: the texts here are the ids of who wrote them.
    pub(crate) fn is_of_their_time(&self, user: &str, shown: &Value) -> Result<(), String> {
        for later in self.changes_after_leave(user, shown) {
            let (id, seq) = (string(later, "client_msg_id"), number(later, "seq"));
            let kind = string(later, "kind");
            ensure!(kind != "edit" || shown["body"] != id, "{user} left before {later}, and is shown {shown}");
            ensure!(
                kind != "reaction" || shown["reactions_seq"].as_u64().is_none_or(|shown| shown < seq),
                "{user} left before {later}, and is shown {shown}"
            );
            ensure!(kind != "delete" || shown.get("deleted_by").is_none(), "{user} left before {later}: {shown}");
        }
        Ok(())
    }

    fn group_is_its_log(&self) -> Result<(), String> {
        let last = self.messages.len() as u64;
        let folded = self.folded(last)?;
        let head = self.heads.first().expect("a group has a head");
        ensure!(number(head, "last_seq") == last, "all or nothing: the head does not say {last}: {head}");
        ensure!(self.idempotency.len() as u64 == last, "all or nothing: {} idempotency rows", self.idempotency.len());
        let line = self.messages.iter().rfind(|entry| counts(entry) || entry["kind"] == "system").unwrap();
        ensure!(head["shown_seq"] == line["seq"], "the line is not {line}: {head}");
        let preview = if line["kind"] == "sealed" { &json!("") } else { &line["body"] };
        ensure!(head["shown_preview"] == *preview, "content is in one place: {head} shows not {line}");
        ensure!(head.get("shown_deleted").is_some() == is_deleted(line), "whether {line} is deleted: {head}");
        let roles = &folded.roles;
        ensure!(number(head, "member_count") == roles.len() as u64, "the members are {roles:?}: {head}");
        let members = self.members.iter().filter(|row| row.get("left_seq").is_none());
        let roster: BTreeMap<String, &str> =
            members.map(|row| (string(row, "user_id").to_owned(), string(row, "member_role"))).collect();
        ensure!(roster == *roles, "the roster is not {roles:?}: {:#?}", self.members);
        Ok(())
    }

    fn view_is_a_fold(&self, row: &Value) -> Result<(), String> {
        let (user, end) = (string(row, "user_id"), number(row, "last_seq"));
        ensure!(end <= self.messages.len() as u64, "a view beyond the log: {row}");
        let folded = self.folded(end)?;
        let last = folded.intervals.get(user).and_then(|all| all.last()).copied();
        let Some(Interval { joined, first, left }) = last else {
            return Err(format!("no member has this view: {row}"));
        };
        ensure!(number(row, "first_seq") == first, "they see from {first} on: {row}");
        ensure!(row.get("left_seq").map(|seq| seq.as_u64().unwrap()) == left, "they left with {left:?}: {row}");
        ensure!(left.is_none_or(|left| left == end), "a view goes on behind {left:?}: {row}");
        let role = folded.roles.get(user).copied().unwrap_or("none");
        ensure!(row["member_role"] == role, "their role is {role}: {row}");
        let is_restricted = folded.restricted.contains(user);
        ensure!(
            left.is_some() || row.get("restricted_until").is_some() == is_restricted,
            "restricted is {is_restricted}: {row}"
        );
        let (delivered, read) = (number(row, "delivered_seq"), number(row, "read_seq"));
        ensure!(joined - 1 <= read && read <= delivered && delivered <= end, "marks: {row}");
        let fused = self.messages.iter().filter(|entry| entry["read_all"] == true && entry["sender_id"] == user);
        let told = fused.map(|entry| number(entry, "seq")).rfind(|seq| *seq <= end);
        ensure!(told.is_none_or(|told| told <= read), "they wrote {told:?} and had read everything: {row}");
        let pending = row.get("pending_from").map(|from| from.as_u64().unwrap());
        ensure!(row.get("pending_since").is_some() == pending.is_some(), "pending: half a marker: {row}");
        let owed = row.get("earlier").is_some() && pending.is_some_and(|from| from < joined);
        ensure!(pending.is_some() == (delivered < end || owed), "pending until acknowledged: {row}");
        let unread = |entry: &&Value| {
            let deleted_by = self.messages.iter().find(|by| by["kind"] == "delete" && by["target_seq"] == entry["seq"]);
            (read + 1..=end).contains(&number(entry, "seq"))
                && counts(entry)
                && entry["sender_id"] != user
                && deleted_by.is_none_or(|by| number(by, "seq") > end)
        };
        let counted = self.messages.iter().filter(unread).count() as u64;
        ensure!(number(row, "unread") == counted, "unread is not {counted}: {row}");
        let names_user = |entry: &&Value| {
            let named = entry["mentions"].as_array().into_iter().flatten();
            named.filter_map(Value::as_str).any(|name| name == user || name == "*")
        };
        let named = self.messages.iter().filter(unread).filter(names_user).count() as u64;
        let mentions = row.get("mentions").map_or(0, |count| count.as_u64().unwrap());
        ensure!(mentions == named, "mentions are not {named}: {row}");
        Ok(())
    }

    /// No mark covers an entry of the time as a member that no device has received.
    fn acknowledged_in_group(&self, row: &Value, held: &Held) -> Result<(), String> {
        let (user, delivered) = (string(row, "user_id"), number(row, "delivered_seq"));
        let folded = self.folded(number(row, "last_seq"))?;
        let joined = folded.intervals.get(user).and_then(|all| all.last()).map_or(0, |last| last.joined);
        let holds = |seq| held.get(user).is_some_and(|held| held.contains(&seq));
        let lost = self.by_others(user).find(|seq| (joined..=delivered).contains(seq) && !holds(*seq));
        ensure!(lost.is_none(), "entry {lost:?} counts as delivered, and no device of {user} has it: {row}");
        // Entries of earlier memberships that no device has are still pending.
        let pending = row.get("pending_from").map_or(u64::MAX, |from| from.as_u64().unwrap());
        let times = folded.intervals.get(user).into_iter().flatten().filter(|time| time.joined < joined);
        for time in times {
            let seen = time.joined..=time.left.unwrap_or(u64::MAX);
            let lost = self.by_others(user).find(|seq| seen.contains(seq) && !holds(*seq) && *seq < pending);
            ensure!(lost.is_none(), "entry {lost:?} waited, and no device of {user} has it: {row}");
        }
        Ok(())
    }

    /// Checks, after all deliveries, that each inbox row is where its member's log ends.
    pub(crate) fn views_are_at_the_end(&self) -> Result<(), String> {
        let last = self.messages.len() as u64;
        for (user, intervals) in self.folded(last)?.intervals {
            let end = intervals.last().and_then(|time| time.left).unwrap_or(last);
            let row = self.inbox.iter().find(|row| row["user_id"] == user.as_str());
            ensure!(row.is_some_and(|row| number(row, "last_seq") == end), "{user}'s view is not at {end}: {row:?}");
        }
        Ok(())
    }

    /// Then, who left is out of the roster.
    pub(crate) fn nobody_who_left_is_in_the_roster(&self) -> Result<(), String> {
        let left: Vec<_> = self.members.iter().filter(|row| row.get("left_seq").is_some()).collect();
        ensure!(left.is_empty(), "they left, and are still in the roster: {left:?}");
        Ok(())
    }
}

impl Folded {
    fn step(&mut self, entry: &Value) -> Result<(), String> {
        let (seq, sender, system) = (number(entry, "seq"), string(entry, "sender_id").to_owned(), system(entry));
        let (event, entry_sender) = (system["event"].as_str().unwrap_or_default(), sender.clone());
        let returns = event == "members.added" && names(&system["members"]) == [sender.clone()];
        let takes_back = entry["kind"] == "delete" && entry["target_sender"] == sender.as_str();
        // An operator need be in no group.
        ensure!(
            self.roles.contains_key(&sender) || event == "created" || sender == OPERATOR || returns || takes_back,
            "permitted at its commit: {sender} is no member: {entry}"
        );
        let role = self.roles.get(&sender).copied().unwrap_or("owner");
        match event {
            "created" | "members.added" => {
                for user in names(&system["members"]) {
                    let leaves = self.leaves.get(&user).copied().unwrap_or_default();
                    if returns {
                        ensure!(leaves > 0, "permitted at its commit: {user} was removed: {entry}");
                        self.leaves.remove(&user);
                    } else {
                        let may = leaves == 0 || leaves == 1 && role != "member";
                        ensure!(may, "permitted at its commit: {user} left by themselves: {entry}");
                        self.restricted.remove(&user);
                    }
                    let role = if event == "created" && user == sender { "owner" } else { "member" };
                    ensure!(self.roles.insert(user.clone(), role).is_none(), "{user} joined twice: {entry}");
                    let first = if entry["history_from"] == "all" { 1 } else { seq };
                    self.intervals.entry(user).or_default().push(Interval { joined: seq, first, left: None });
                }
            }
            "members.removed" | "member.left" => {
                let who = if event == "member.left" { vec![sender] } else { names(&system["members"]) };
                ensure!(event == "member.left" || role != "member", "permitted at its commit: {entry}");
                if event == "member.left" {
                    *self.leaves.entry(who[0].clone()).or_default() += 1;
                }
                for user in who {
                    ensure!(self.roles.remove(&user).is_some(), "{user} was no member: {entry}");
                    self.intervals.get_mut(&user).unwrap().last_mut().unwrap().left = Some(seq);
                }
            }
            "member.restricted" => {
                ensure!(role != "member", "permitted at its commit: {entry}");
                self.restricted.insert(string(&system, "user_id").to_owned());
            }
            "role.changed" => {
                ensure!(role == "owner", "permitted at its commit: {entry}");
                let role = ["owner", "admin", "member"].into_iter().find(|role| system["role"] == *role).unwrap();
                self.roles.insert(string(&system, "user_id").to_owned(), role);
                if role == "owner" {
                    self.roles.insert(sender, "admin");
                }
            }
            _ => {}
        }
        let writes = ["text", "edit", "reaction"].into_iter().any(|kind| entry["kind"] == kind);
        ensure!(!writes || !self.restricted.contains(&entry_sender), "permitted at its commit: restricted: {entry}");
        if entry["kind"] == "delete" {
            let is_own = entry["target_sender"] == entry["sender_id"];
            ensure!(is_own || role != "member", "permitted at its commit: {entry}");
        }
        Ok(())
    }
}

/// The seqs that a history of this member's holds.
pub(crate) fn history_of(tables: &Tables, user: &str) -> BTreeSet<u64> {
    let Some(last) = tables.intervals(user).last().copied() else { return BTreeSet::new() };
    (last.first..=last.left.unwrap_or(tables.messages.len() as u64)).collect()
}
