//! The ids of conversations that follow from their users.

use wire::UserId;

use crate::fault::Fault;

/// Returns the id of the direct conversation of two users, which need not exist yet. The order of the users does not
/// matter.
///
/// # Errors
/// `bad_request`: no user has such an id.
#[uniffi::export]
pub fn direct_conversation_id(one: &str, other: &str) -> Result<String, Fault> {
    let user = |id| UserId::parse(id).map_err(|error| Fault::new("bad_request", format!("the user id {error}")));
    Ok(wire::direct_conversation_id(&user(one)?, &user(other)?).as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_conversation_has_its_id_before_its_first_message() {
        for (one, other) in [("alice", "bob"), ("bob", "alice")] {
            assert_eq!(direct_conversation_id(one, other).unwrap(), "dm_cqnezuscwz7if3puu6f3iggubjvdq4gs");
        }
        let Err(Fault::Failed { code, .. }) = direct_conversation_id("alice", "") else { panic!("it has an id") };
        assert_eq!(code, "bad_request");
    }
}
