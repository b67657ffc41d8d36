//! Any bytes as an event of API Gateway: a user's request, or an error that names what is missing.
#![no_main]

use lambda::{WebSocketEvent, caller};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(event) = serde_json::from_slice::<WebSocketEvent>(bytes) else { return };
    if let Ok(caller) = caller(&event) {
        // Identity comes from the authorizer's context, or from nowhere.
        let principal = &event.request_context.authorizer.fields["principalId"];
        assert_eq!(principal.as_str(), Some(caller.user.as_str()));
    }
});
