//! Any bytes as an event of API Gateway: a user's request, or an error that names what is missing.
#![no_main]

use lambda::{ApiEvent, caller};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(event) = serde_json::from_slice::<ApiEvent>(bytes) else { return };
    if let Ok(caller) = caller(&event) {
        // Identity comes from the authorizer's context, or from nowhere.
        let fields = &event.request_context.authorizer.fields;
        let principal = fields.get("principalId").unwrap_or_else(|| &fields["lambda"]["principalId"]);
        assert_eq!(principal.as_str(), Some(caller.user.as_str()));
    }
});
