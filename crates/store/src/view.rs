//! The part of a member's inbox row that only a group's row has.

use domain::{News, View};
use wire::Seq;

use crate::Error;
use crate::item::{Item, Reader};
use crate::roster::{restricted_until, role};

/// Reports attributes that only a group's row has.
pub(crate) fn is_of_group(item: &Item) -> bool {
    item.contains_key("first_seq")
}

/// Only the part of the row that a group has and a direct conversation has not.
pub(crate) fn view(row: &Reader) -> Result<View, Error> {
    let deleted_seq = row.optional("deleted_seq", Reader::seq)?;
    let news = |row: &Reader, name| {
        let seq = row.seq(name)?;
        Ok(News { seq, at: row.time("news_at")?, deleted: deleted_seq == Some(seq) })
    };
    Ok(View {
        role: role(row.text("member_role")?),
        first_seq: row.seq("first_seq")?,
        left_seq: row.optional("left_seq", Reader::seq)?,
        news: row.optional("news_seq", news)?,
        mentioned_seq: row.optional("mentioned_seq", Reader::seq)?,
        leaves: row.optional("leaves", Reader::count)?.unwrap_or_default(),
        restricted_until: restricted_until(row)?,
        earlier: row.optional("earlier", Reader::text)?.map(earlier).unwrap_or_default(),
        moved_by: row.optional("moved_by", Reader::count)?,
        group: None,
        rules: None,
        encrypted: false,
    })
}

/// `5-9 12-15`: pairs of first and last seqs. Another form is of a later version, and means nothing here.
fn earlier(text: &str) -> Vec<(Seq, Seq)> {
    let seq = |text: &str| Seq::new(text.parse().ok()?);
    let pair = |text: &str| text.split_once('-').and_then(|(first, last)| Some((seq(first)?, seq(last)?)));
    text.split(' ').filter_map(pair).collect()
}

pub(crate) fn earlier_text(owed: &[(Seq, Seq)]) -> Option<String> {
    let pairs: Vec<String> = owed.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    if pairs.is_empty() { None } else { Some(pairs.join(" ")) }
}
