//! The views of the app: what they need, and what becomes of the requests that the server refused.

use wire::{ClientMsgId, ConversationId, ConversationSettings, Seq, Settings, Target};

use super::requests::Errand;
use super::{AskId, Core};
use crate::chat::{Found, LoadId, Need, ViewId, ViewOf};
use crate::group::Draft;
use crate::saved::StorageChange;
use crate::turn::{Keeper, Output};
use crate::{Error, Write};

impl Core {
    pub(super) fn open_view(&mut self, view: ViewId, of: ViewOf) {
        let unsent = self.outbox.waiting();
        self.views.open(view, of, &unsent, &self.refused);
    }

    pub(super) fn loaded(&mut self, load: LoadId, found: Found) {
        if let Some(found) = self.read_for_keyring(load, found) {
            self.views.loaded(load, found, || self.outbox.waiting(), &self.refused);
        }
    }

    pub(super) fn draft(&mut self, target: Target, draft: Option<Draft>) {
        self.views.draft(&target, draft.clone());
        self.store(|| Write::Draft { target, draft });
    }

    pub(super) fn place(&mut self, conversation_id: ConversationId, seq: Seq, path: Option<String>) {
        self.views.place(&conversation_id, seq, path.as_deref());
        self.store(|| Write::Place { conversation_id, seq, path });
    }

    /// Makes the requests of the views. Returns whether there were any.
    pub(super) fn serve_views(&mut self) -> bool {
        let needs = self.views.needs();
        let has_needs = !needs.is_empty();
        for need in needs {
            match need {
                Need::Load(load, what) => self.outputs.push(Output::Load { load, what }),
                Need::Ask(ask, action) => self.call(action, ask),
                Need::Read(conversation_id, seq) => self.read(&conversation_id, seq, None),
                Need::Watch(ask, conversation_id) => self.watch(&conversation_id, None, ask, self.now),
                Need::Unwatch(conversation_id) => self.unwatch(&conversation_id),
                Need::Features if self.links.current().is_some() => self.ask(Errand::Features, self.now),
                // The next connection requests them.
                Need::Features => self.views.set_has_profiles(None),
                Need::UnwatchPresence => self.forget_presence(),
                Need::Listed if self.keeper == Keeper::Store => self.save(StorageChange::Listed),
                Need::Listed => {}
                Need::Gone(conversation_id) => self.store(|| Write::Gone(conversation_id)),
                Need::Unpinned(conversation_id) => self.store(|| {
                    let set = ConversationSettings { pinned: Some(false), ..ConversationSettings::default() };
                    Write::Settings(Settings::Conversation { conversation_id, set })
                }),
                Need::Members(conversation_id, members) => self.store(|| Write::Members { conversation_id, members }),
            }
        }
        has_needs
    }

    pub(super) fn show_views(&mut self) {
        if let Some(keyring) = &self.keyring {
            self.views.lock(|party| keyring.lock(party));
        }
        let changed = self.views.changed(self.now, self.wall);
        self.outputs.extend(changed.into_iter().map(|(view, shown)| Output::Show { view, shown }));
    }

    /// The user discards a request that was refused.
    pub(super) fn dismiss(&mut self, client_msg_id: &ClientMsgId) {
        if self.refused.extract_if(.., |(queued, _)| queued.client_msg_id == *client_msg_id).count() > 0 {
            self.save(StorageChange::Done(client_msg_id.clone()));
        }
        self.views.dismiss(client_msg_id);
    }

    /// The user tries a request again that was refused.
    pub(super) fn again(&mut self, client_msg_id: &ClientMsgId, ask: AskId) {
        let Some((queued, _)) = self.refused.iter().find(|(queued, _)| queued.client_msg_id == *client_msg_id) else {
            let problem = "is no request that was refused".to_owned();
            return self.answer(ask, Err(Error::Invalid { field: "client_msg_id", problem }));
        };
        let queued = queued.clone();
        self.dismiss(client_msg_id);
        self.keep(queued, ask);
    }
}
