// The screens. In your app, a `WindowGroup` shows `ChatsScreen(model:)` once the client is open.

#if canImport(SwiftUI)
    import PigeonholeKit
    import SwiftUI

    public struct ChatsScreen: View {
        @Bindable var model: AppModel
        @State private var opened: ChatRow.ID?

        public init(model: AppModel) {
            self.model = model
        }

        public var body: some View {
            NavigationSplitView {
                List(model.chats.rows, selection: $opened) { row in
                    VStack(alignment: .leading) {
                        Text(isolated(row.title ?? row.peerID ?? "")).bold(row.unread > 0)
                        Text(isolated(row.line?.text ?? "")).lineLimit(1).foregroundStyle(.secondary)
                    }
                    .badge(row.unread)
                }
                .navigationTitle(model.isConnected ? "Chats" : "Connecting …")
            } detail: {
                if let messages = model.messages { MessagesScreen(model: model, messages: messages) }
            }
            .onChange(of: opened) { _, id in
                if let row = model.chats.rows.first(where: { $0.id == id }) { model.open(row) }
            }
            .alert("That did not work", isPresented: .constant(model.problem != nil)) {
                Button("OK") { model.problem = nil }
            } message: {
                Text(model.problem ?? "")
            }
        }
    }

    struct MessagesScreen: View {
        let model: AppModel
        let messages: MessagesModel
        @State private var draft = ""
        @Environment(\.scenePhase) private var phase

        var body: some View {
            List {
                if messages.hasOlder { ProgressView().onAppear { messages.view.older() } }
                ForEach(messages.items) { item in
                    ItemView(item: item).onAppear { if phase == .active { messages.view.seen(item) } }
                }
            }
            .defaultScrollAnchor(.bottom)
            .navigationTitle(isolated(messages.chat?.title ?? messages.chat?.peerID ?? ""))
            .safeAreaInset(edge: .bottom) {
                TextField("Message", text: $draft)
                    .textFieldStyle(.roundedBorder).padding()
                    .onChange(of: draft) { model.typing() }
                    .onSubmit(send)
            }
        }

        private func send() {
            let text = draft
            draft = ""
            Task { await model.send(text) }
        }
    }

    private struct ItemView: View {
        let item: Item

        var body: some View {
            switch item {
            case .message(let message): Bubble(message: message)
            case .day(_, let day): note(Calendar(identifier: .gregorian).date(from: day)?.formatted(date: .long, time: .omitted))
            case .unread(_, let count): note("\(count) unread")
            case .gap: ProgressView()
            case .system(let system): note("\(isolated(system.senderID)): \(system.event.event ?? "")")
            case .unreadable: note("This message can't be read here.")
            case .other(_, let message): note(isolated(message?.body ?? ""))
            }
        }

        private func note(_ text: String?) -> some View {
            Text(text ?? "").font(.caption).foregroundStyle(.secondary).frame(maxWidth: .infinity)
        }
    }

    private struct Bubble: View {
        let message: MessageItem

        var body: some View {
            let isOwn = message.progress != nil
            VStack(alignment: .leading) {
                if message.run.isFirst, !isOwn { Text(isolated(message.senderID)).font(.caption).bold() }
                if message.deletedBy != nil {
                    Text("Deleted").italic()
                } else {
                    Text(isolated(message.body.isEmpty ? message.media?.name ?? message.kind : message.body))
                }
                HStack {
                    ForEach(message.reactions, id: \.emoji) { Text("\($0.emoji) \($0.count)") }
                    Text(mark)
                }
                .font(.caption2)
            }
            .padding(8)
            .background(isOwn ? Color.accentColor.opacity(0.2) : Color.gray.opacity(0.2), in: .rect(cornerRadius: 12))
            .frame(maxWidth: .infinity, alignment: isOwn ? .trailing : .leading)
            .listRowSeparator(.hidden)
        }

        private var mark: String {
            switch message.progress {
            case .waiting, .uploading: "🕓"
            case .stored: "✓"
            case .delivered, .read: "✓✓"
            case .failed: "!"
            case .other, nil: ""
            }
        }
    }

    /// A text in another script must not turn the line.
    private func isolated(_ text: String) -> String {
        "\u{2068}\(text)\u{2069}"
    }
#endif
