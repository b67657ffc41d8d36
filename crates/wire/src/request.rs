//! Requests of clients. Each frame is parsed here, once, into a [`Request`]. A refusal names the field at fault.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::actions::Action;
use crate::fields::Fields;
use crate::ids::RequestId;
use crate::json::to_json;
use crate::limits::{BODY_JSON_BYTES_MAX, FRAME_BYTES_MAX, REQUEST_ID_CHARS_MAX};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Echoed by the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId>,
    #[serde(flatten)]
    pub action: Action,
}

/// A frame that is no request, with what of it could be read, so that the client can tell which one it was.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected {
    pub action: Option<String>,
    pub id: Option<RequestId>,
    pub refusal: Refusal,
}

impl Request {
    /// The frame that asks for this.
    pub fn to_frame(&self) -> String {
        to_json(self)
    }

    /// Reads a frame. Unknown fields are ignored.
    ///
    /// # Errors
    /// [`Rejected`] with the first field that is wrong.
    pub fn parse(frame: &str) -> Result<Self, Rejected> {
        Self::read(frame, None)
    }

    /// Reads a frame that was sent to this action's path, and may leave `action` out.
    ///
    /// # Errors
    /// [`Rejected`] with the first field that is wrong.
    pub fn parse_at(action: &str, frame: &str) -> Result<Self, Rejected> {
        Self::read(frame, Some(action))
    }

    fn read(frame: &str, at: Option<&str>) -> Result<Self, Rejected> {
        let unreadable = |refusal| Rejected { action: at.map(str::to_owned), id: None, refusal };
        if frame.len() > FRAME_BYTES_MAX {
            return Err(unreadable(Refusal::TooLarge { field: "frame", problem: "must be at most 32 KiB".into() }));
        }
        let object = match serde_json::from_str(frame) {
            Ok(Value::Object(mut object)) => {
                if let Some(at) = at {
                    object.entry("action").or_insert_with(|| at.into());
                }
                object
            }
            Ok(_) => return Err(unreadable(Refusal::bad_request("frame", "must be a JSON object"))),
            Err(_) => return Err(unreadable(Refusal::bad_request("frame", "must be valid JSON"))),
        };
        let fields = Fields { object: &object, path: "" };
        let name = fields.text("action");
        let echoed = name.as_ref().ok().filter(|name| name.chars().count() <= REQUEST_ID_CHARS_MAX);
        let echoed = at.or(echoed.copied()).map(str::to_owned);
        let id = match fields.optional("id", RequestId::parse) {
            Ok(id) => id,
            Err(refusal) => return Err(Rejected { action: echoed, id: None, refusal }),
        };
        let name = name.and_then(|name| {
            let is_of_path = at.is_none_or(|at| at == name);
            if is_of_path { Ok(name) } else { Err(fields.wrong("action", "must be that of the path, or left out")) }
        });
        match name.and_then(|name| Action::parse(name, &fields)) {
            Ok(Action::Send(_) | Action::Edit(_)) if has_bloated_body(frame) => {
                let problem =
                    "must be at most 24 KiB as the frame has it; write characters as they are, and not as escapes";
                Err(Rejected {
                    action: echoed,
                    id,
                    refusal: Refusal::TooLarge { field: "body", problem: problem.into() },
                })
            }
            Ok(action) => Ok(Self { id, action }),
            Err(refusal) => Err(Rejected { action: echoed, id, refusal }),
        }
    }
}

/// Whether the frame's body takes more than a body may, since its encoder escapes what need not be escaped. With a longer one API Gateway
/// would close the socket without a word, so it is refused while there is a frame to answer.
fn has_bloated_body(frame: &str) -> bool {
    #[derive(Deserialize)]
    struct Written<'a> {
        #[serde(borrow)]
        body: &'a RawValue,
    }
    let is_longer = |written: Written| written.body.get().len() > BODY_JSON_BYTES_MAX;
    frame.len() > BODY_JSON_BYTES_MAX && serde_json::from_str(frame).is_ok_and(is_longer)
}

#[cfg(test)]
mod tests;
