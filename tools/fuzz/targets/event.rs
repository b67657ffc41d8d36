//! Any bytes as an event of API Gateway: a call by somebody, or an error that says what is missing.
#![no_main]

use domain::Timestamp;
use lambda::{Call, Context, LambdaEvent, WebSocketEvent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(event) = serde_json::from_slice::<WebSocketEvent>(bytes) else { return };
    let event = LambdaEvent::new(event, Context::default());
    if let Ok((call, _)) = Call::open(&event, Timestamp::from_millis(0)) {
        // Identity comes from the authorizer's context, or from nowhere.
        let principal = &event.payload.request_context.authorizer.fields["principalId"];
        assert_eq!(principal.as_str(), Some(call.caller.user.as_str()));
    }
});
