//! Reports of encrypted messages: the store has their proofs, and a report contains them where the server checks them.

use std::collections::BTreeSet;

use wire::limits::{FRAME_BYTES_MAX, OPENED_CHARS_MAX, REPORT_SEQS_MAX};
use wire::{Action, Message, Opened, ReportRequest, Seq, Side};

use super::requests::frame;
use super::{AskId, Core};
use crate::Error;
use crate::chat::{Found, Load, LoadId};
use crate::turn::Keeper;

/// Reports that have not left yet.
#[derive(Default)]
pub(super) struct Proving {
    waiting: Vec<Report>,
}

struct Report {
    request: ReportRequest,
    ask: AskId,
    loads: BTreeSet<LoadId>,
    found: Vec<Opened>,
}

impl Core {
    /// Returns a request that leaves as it is. A report first reads the store.
    pub(super) fn prove(&mut self, action: Action, ask: AskId) -> Option<Action> {
        let request = match action {
            Action::Report(request) if self.keyring.is_some() && self.keeper == Keeper::Store => request,
            action => return Some(action),
        };
        let (Some(id), true) = (request.conversation_id.clone(), request.opened.is_empty()) else {
            return Some(Action::Report(request));
        };
        let seqs: BTreeSet<_> = request.seqs.iter().take(REPORT_SEQS_MAX).copied().collect();
        let window = |seq: Seq| Load::Window { conversation_id: id.clone(), side: Side::After(seq.previous()) };
        let loads = seqs.into_iter().map(|seq| self.load(window(seq))).collect();
        self.proving.waiting.push(Report { request, ask, loads, found: vec![] });
        None
    }

    /// Takes what a report has read. Returns what is for another.
    pub(super) fn read_for_report(&mut self, load: LoadId, found: Found) -> Option<Found> {
        let Some(report) = self.proving.waiting.iter_mut().find(|report| report.loads.contains(&load)) else {
            return Some(found);
        };
        report.loads.remove(&load);
        if let Found::Window { window, .. } = found {
            let is_reported = |message: &&Message| report.request.seqs.contains(&message.seq);
            let reported = window.messages.iter().filter(is_reported);
            for proof in reported.filter_map(|message| message.proof.as_deref()) {
                if report.found.iter().all(|known| known.seq != proof.seq) {
                    report.found.push(proof.clone());
                }
            }
        }
        None
    }

    /// Sends the reports whose proofs were read, once the server has said whether it checks them.
    pub(super) fn report_due(&mut self) {
        let Some(checks) = self.checks_proofs() else { return };
        let read = self.proving.waiting.extract_if(.., |report| report.loads.is_empty());
        for Report { request, ask, found, .. } in read.collect::<Vec<_>>() {
            let request = if checks { proven(request, found) } else { request };
            self.call_as_it_is(Action::Report(request), ask);
        }
    }
}

/// Returns a report without its proofs, which the server may have refused: it has none of an erased message.
pub(super) fn without_proofs(action: Action, error: &Error) -> Option<Action> {
    let is_of_proof = matches!(error, Error::Refused { code, .. } if code == "gone" || code == "bad_request");
    match action {
        Action::Report(request) if is_of_proof && !request.opened.is_empty() => {
            Some(Action::Report(ReportRequest { opened: vec![], ..request }))
        }
        _ => None,
    }
}

/// Returns the report with the proofs that fit. An edited message is proved by its last edit, which is an entry too.
fn proven(mut request: ReportRequest, found: Vec<Opened>) -> ReportRequest {
    let mut chars = 0;
    for proof in found {
        let is_new = !request.seqs.contains(&proof.seq);
        let more = chars + proof.key.to_text().len() + proof.plaintext.to_text().len();
        if more <= OPENED_CHARS_MAX && (!is_new || request.seqs.len() < REPORT_SEQS_MAX) {
            chars = more;
            request.seqs.extend(is_new.then_some(proof.seq));
            request.opened.push(proof);
        }
    }
    // A note and a claim of control characters can have the room.
    while frame(u64::MAX, Action::Report(request.clone())).len() > FRAME_BYTES_MAX && request.opened.pop().is_some() {}
    request
}
