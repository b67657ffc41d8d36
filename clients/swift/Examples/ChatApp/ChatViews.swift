// The screens. In your app, a `WindowGroup` shows `ChatList(model:)` once the client is open.

#if canImport(SwiftUI)
    import PigeonholeKit
    import SwiftUI

    public struct ChatList: View {
        let model: ChatModel
        @State private var opened: String?

        public init(model: ChatModel) {
            self.model = model
        }

        public var body: some View {
            NavigationSplitView {
                List(model.rows, id: \.peerID, selection: $opened) { row in
                    VStack(alignment: .leading) {
                        Text(row.title ?? row.peerID ?? "").bold(row.unread > 0)
                        Text(row.lastMessage?.preview ?? "").lineLimit(1).foregroundStyle(.secondary)
                    }
                    .badge(row.unread)
                }
                .navigationTitle(title)
            } detail: {
                if opened != nil { ChatView(model: model) }
            }
            .task { await model.run() }
            .onChange(of: opened) { _, peer in
                if let peer { Task { await model.direct(peer) } }
            }
        }

        private var title: String {
            switch model.state {
            case .caughtUp: "Chats"
            case .offline: "Waiting for the network …"
            default: "Connecting …"
            }
        }
    }

    struct ChatView: View {
        let model: ChatModel
        @State private var draft = ""

        var body: some View {
            List {
                ForEach(model.messages, id: \.seq) { message in
                    Bubble(text: text(of: message), isOwn: message.senderID == model.me)
                }
                ForEach(model.unsent) { Bubble(text: $0.text, isOwn: true).opacity(0.5) }
            }
            .defaultScrollAnchor(.bottom)
            .safeAreaInset(edge: .bottom) {
                TextField("Message", text: $draft).textFieldStyle(.roundedBorder).padding().onSubmit(send)
            }
        }

        private func send() {
            let text = draft
            draft = ""
            Task { await model.send(text) }
        }

        private func text(of message: Message) -> String {
            if message.deletedAt != nil { return "Deleted" }
            return message.system?.event ?? message.media?.name ?? message.body
        }
    }

    private struct Bubble: View {
        let text: String
        let isOwn: Bool

        var body: some View {
            // A name in another script must not turn the line.
            Text("\u{2068}\(text)\u{2069}")
                .padding(8)
                .background(isOwn ? Color.accentColor.opacity(0.2) : Color.gray.opacity(0.2), in: .rect(cornerRadius: 12))
                .frame(maxWidth: .infinity, alignment: isOwn ? .trailing : .leading)
                .listRowSeparator(.hidden)
        }
    }
#endif
