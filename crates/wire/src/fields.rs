//! Reading the fields of a request, so that an error names the one at fault.

use serde_json::{Map, Value};

use crate::bytes::Bytes;
use crate::ids::{ConversationId, InvalidId, Seq, UserId};
use crate::limits::SEQ_MAX;
use crate::refusal::Refusal;

/// The fields of an object, read one by one. `null` counts as left out.
pub(crate) struct Fields<'a> {
    pub(crate) object: &'a Map<String, Value>,
    /// The path before a field's name in an error, such as `up_to[3].`.
    pub(crate) path: &'a str,
}

impl<'a> Fields<'a> {
    pub(crate) fn get(&self, field: &str) -> Option<&'a Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    /// Whether the field removes what was set.
    pub(crate) fn is_null(&self, field: &str) -> bool {
        self.object.get(field).is_some_and(Value::is_null)
    }

    pub(crate) fn wrong(&self, field: &str, problem: impl Into<String>) -> Refusal {
        Refusal::bad_request(format!("{}{field}", self.path), problem)
    }

    pub(crate) fn missing(&self, field: &str) -> Refusal {
        self.wrong(field, "is missing")
    }

    pub(crate) fn text(&self, field: &str) -> Result<&'a str, Refusal> {
        let value = self.get(field).ok_or_else(|| self.missing(field))?;
        value.as_str().ok_or_else(|| self.wrong(field, "must be a string"))
    }

    pub(crate) fn optional<T, E: Into<Problem>>(
        &self,
        field: &str,
        parse: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Result<Option<T>, Refusal> {
        self.get(field).is_some().then(|| self.required(field, parse)).transpose()
    }

    pub(crate) fn required<T, E: Into<Problem>>(
        &self,
        field: &str,
        parse: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Result<T, Refusal> {
        parse(self.text(field)?).map_err(|problem| self.wrong(field, problem.into().0))
    }

    pub(crate) fn integer(&self, field: &str, min: u64, max: u64) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let value = whole(value).filter(|number| (min..=max).contains(number));
        value.map(Some).ok_or_else(|| self.wrong(field, format!("must be an integer from {min} to {max}")))
    }

    pub(crate) fn boolean(&self, field: &str) -> Result<Option<bool>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(field, "must be true or false"))
    }

    /// Reads at least one byte.
    pub(crate) fn bytes(&self, field: &'static str, bytes_max: usize) -> Result<Bytes, Refusal> {
        let text = self.text(field)?;
        let bytes = Bytes::parse(text);
        let length = bytes.as_ref().map_or(0, |bytes| bytes.as_slice().len());
        if text.len() > bytes_max.div_ceil(3) * 4 || length > bytes_max {
            return Err(Refusal::TooLarge { field, problem: format!("must be at most {bytes_max} bytes").into() });
        }
        let bytes = bytes.filter(|bytes| !bytes.as_slice().is_empty());
        bytes.ok_or_else(|| self.wrong(field, "must be bytes in base64 with its padding, and not empty"))
    }

    /// Reads a list of `min` to `max` user ids, each once. Returns `None` if the field is left out.
    pub(crate) fn users(&self, field: &str, min: usize, max: usize) -> Result<Option<Vec<UserId>>, Refusal> {
        self.ids(field, (min, max, "user"), UserId::parse)
    }

    /// Reads a list of `min` to `max` conversation ids, each once. Returns `None` if the field is left out.
    pub(crate) fn conversations(
        &self,
        field: &str,
        min: usize,
        max: usize,
    ) -> Result<Option<Vec<ConversationId>>, Refusal> {
        self.ids(field, (min, max, "conversation"), ConversationId::parse)
    }

    fn ids<T: PartialEq>(
        &self,
        field: &str,
        (min, max, of): (usize, usize, &str),
        parse: fn(&str) -> Result<T, InvalidId>,
    ) -> Result<Option<Vec<T>>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let problem = || self.wrong(field, format!("must be a list of {min} to {max} {of} ids, each of them once"));
        let list = value.as_array().filter(|list| (min..=max).contains(&list.len())).ok_or_else(problem)?;
        let ids = list.iter().map(|id| id.as_str().and_then(|id| parse(id).ok()));
        let ids: Vec<T> = ids.collect::<Option<_>>().ok_or_else(problem)?;
        let is_repeated = ids.iter().enumerate().any(|(place, id)| ids.iter().skip(place + 1).any(|other| other == id));
        if is_repeated { Err(problem()) } else { Ok(Some(ids)) }
    }

    pub(crate) fn seq(&self, field: &str, min: u64) -> Result<Option<Seq>, Refusal> {
        Ok(self.integer(field, min, SEQ_MAX)?.and_then(Seq::new))
    }

    pub(crate) fn required_seq(&self, field: &str) -> Result<Seq, Refusal> {
        self.seq(field, 1)?.ok_or_else(|| self.missing(field))
    }
}

/// A number without a fraction, however it is written: JSON has one kind of numbers, and `1.0` is `1`.
fn whole(value: &Value) -> Option<u64> {
    let exact = |number: f64| {
        let is_whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and from 0 to 2^53")]
        is_whole.then_some(number as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(exact))
}

/// The reason why the text of a field is invalid.
pub(crate) struct Problem(String);

impl From<InvalidId> for Problem {
    fn from(invalid: InvalidId) -> Self {
        Self(invalid.to_string())
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
