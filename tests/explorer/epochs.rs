//! Invariants of sealed conversations at any moment, by the log alone.

use serde_json::Value;

use crate::groups::{names, system};
use crate::invariants::{Tables, ensure, number, string};

/// A log's keys up to some entry.
#[derive(Debug, Default)]
pub(crate) struct LogKeys<'a> {
    pub(crate) epoch: u64,
    last: Option<&'a Value>,
    birth: Option<&'a Value>,
    /// The users who left a sealed group, and whom no commit has named since.
    pub(crate) unnamed: Vec<String>,
}

impl Tables {
    /// Epochs are dense, and each sealed entry is of the epoch of the last commit below it. Where it is stored, each user
    /// who left is named. The newest epoch is in a row of its own, and in the head of a group.
    pub(crate) fn epochs(&self) -> Result<(), String> {
        let at = self.epoch()?;
        for head in &self.heads {
            let told = head.get("epoch").map_or(0, |_| number(head, "epoch"));
            let sealed = at.epoch > 0;
            ensure!(told == at.epoch, "the epoch is {}: {head}", at.epoch);
            ensure!(!sealed || head["encrypted"] == true, "a commit seals the group: {head}");
            ensure!(sorted(names(&head["unnamed"])) == sorted(at.unnamed.clone()), "unnamed are {at:?}: {head}");
        }
        let (Some(last), Some(birth)) = (at.last, at.birth) else {
            ensure!(self.epochs.is_empty(), "keys of a plain conversation: {:?}", self.epochs);
            return Ok(());
        };
        let is_newest = |row: &Value| {
            row["epoch"] == last["epoch"]
                && row["seq"] == last["seq"]
                && row["birth_seq"] == birth["seq"]
                && (last.get("tree").is_none() || row["tree"] == last["tree"])
        };
        ensure!(self.epochs.len() == 1 && is_newest(&self.epochs[0]), "{:?} is not of {last}", self.epochs);
        Ok(())
    }

    /// The log's keys as they are now.
    pub(crate) fn epoch(&self) -> Result<LogKeys<'_>, String> {
        let mut at = LogKeys::default();
        for entry in &self.messages {
            at.step(entry)?;
        }
        Ok(at)
    }

    /// A member's row of a direct conversation has the epoch too.
    pub(crate) fn epoch_of(&self, row: &Value) -> Result<(), String> {
        let (of_row, epoch) = (row.get("epoch").map_or(0, |_| number(row, "epoch")), self.epoch()?.epoch);
        ensure!(of_row == epoch, "the epoch is {epoch}: {row}");
        Ok(())
    }
}

impl<'a> LogKeys<'a> {
    fn step(&mut self, entry: &'a Value) -> Result<(), String> {
        match string(entry, "kind") {
            "commit" => {
                self.commit(entry)?;
                if entry.get("commit").is_none() {
                    ensure!(entry.get("welcome").is_some(), "a birth has no Welcome: {entry}");
                    self.birth = Some(entry);
                }
                let named = names(&entry["removes"]);
                self.unnamed.retain(|user| !named.contains(user));
            }
            "sealed" => {
                let epoch = self.epoch;
                ensure!(number(entry, "epoch") == epoch, "sealed at another epoch than {epoch}: {entry}");
                ensure!(self.unnamed.is_empty(), "sealed, and no commit has named {:?}: {entry}", self.unnamed);
            }
            "system" => self.member_change(entry)?,
            "delete" => {}
            _ => {
                ensure!(self.epoch == 0, "in the clear behind a birth: {entry}");
            }
        }
        Ok(())
    }

    fn commit(&mut self, entry: &'a Value) -> Result<(), String> {
        self.epoch += 1;
        ensure!(number(entry, "epoch") == self.epoch, "epochs are dense: {entry}");
        ensure!(
            entry.get("welcome").is_some() == entry.get("tree").is_some(),
            "a Welcome without its tree, or a tree without a Welcome: {entry}"
        );
        self.last = Some(entry);
        Ok(())
    }

    fn member_change(&mut self, entry: &'a Value) -> Result<(), String> {
        let system = system(entry);
        let with_keys = entry.get("epoch").is_some();
        if with_keys {
            ensure!(self.epoch > 0, "before the birth: {entry}");
            self.commit(entry)?;
        }
        let (event, author) = (string(&system, "event"), string(entry, "sender_id").to_owned());
        let members = names(&system["members"]);
        let left = match event {
            "members.removed" => members,
            "member.left" => vec![author],
            // A user who comes back brings no commit, and an added one always comes with it.
            "members.added" => {
                ensure!(
                    self.epoch == 0 || with_keys || members == [author],
                    "added to a sealed group without a commit: {entry}"
                );
                let unnamed = members.iter().find(|user| with_keys && self.unnamed.contains(user));
                ensure!(unnamed.is_none(), "{unnamed:?} may still have keys, and is added: {entry}");
                vec![]
            }
            _ => vec![],
        };
        self.unnamed.retain(|user| !left.contains(user));
        if !with_keys && self.epoch > 0 {
            self.unnamed.extend(left);
        }
        Ok(())
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
