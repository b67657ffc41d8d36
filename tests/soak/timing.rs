//! An app's timing, with shorter waits where they would only lengthen a run.

use std::time::Duration;

use pigeonhole_client::Timing;

/// The waits for replies are the usual ones: shorter ones would keep a busy server busy.
pub(crate) fn timing() -> Timing {
    Timing {
        retry_first: Duration::from_millis(50),
        ping_every: Duration::from_secs(10),
        reconnect_first: Duration::from_millis(20),
        reconnect_max: Duration::from_secs(1),
        ..Timing::default()
    }
}
