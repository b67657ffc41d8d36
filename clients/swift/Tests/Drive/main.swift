// Lets tools/scripts/lossy.py use the client: one command per input line, one result per output line, with tabs between
// fields.

import Foundation
import PigeonholeKit

func say(_ fields: String...) {
    FileHandle.standardOutput.write(Data((fields.joined(separator: "\t") + "\n").utf8))
}

let url = URL(string: CommandLine.arguments[1])!
var clients: [String: Pigeonhole] = [:]
while let line = readLine() {
    let fields = line.split(separator: "\t").map(String.init)
    let user = fields[0]
    if clients[user] == nil {
        let client = try await Pigeonhole(Config(url: url, userID: user, keep: .outbox)) { _ in user }
        clients[user] = client
        Task.detached {
            for await event in client.events {
                switch event {
                case .entry(let entry, _): say(user, "shown", entry.conversationID, "\(entry.seq)", entry.body)
                case .failed(let failed): say(user, "failed", failed.reason)
                default: break
                }
            }
        }
    }
    guard let client = clients[user] else { break }
    switch fields[1] {
    case "send": try await client.direct(fields[2]).send(fields[3])
    case "read":
        guard let seq = Int(fields[3]) else { break }
        // The reply comes when there is a connection.
        Task.detached { try await client.conversation(fields[2]).read(seq) }
    case "wake": client.wake()
    default: fatalError("there is no command \(fields[1])")
    }
}
for client in clients.values { await client.close() }
