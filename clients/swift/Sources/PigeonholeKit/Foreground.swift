// Reports of the system. Only compiled on Apple's systems.

import Foundation

#if canImport(Network)
    import Network

    /// Wakes the client when the device has another network.
    final class NetworkMonitor: @unchecked Sendable {
        private let monitor = NWPathMonitor()

        init(onChange: @escaping @Sendable () -> Void) {
            monitor.pathUpdateHandler = { path in
                if path.status == .satisfied { onChange() }
            }
            monitor.start(queue: DispatchQueue(label: "chat.pigeonhole.network"))
        }

        deinit {
            monitor.cancel()
        }
    }
#endif

#if canImport(UIKit) && !os(watchOS)
    import UIKit

    extension Pigeonhole {
        /// Follows the app into the background and back, until the task is cancelled. SwiftUI: `.task { await
        /// pigeonhole.followApp() }`.
        ///
        /// In the background the connection stays for 20 s, for what is on its way. Then the client is suspended. From
        /// then on pushes reach the device.
        @MainActor
        public func followApp() async {
            let background = Task { @MainActor in
                let name = UIApplication.didEnterBackgroundNotification
                for await _ in NotificationCenter.default.notifications(named: name).map({ _ in }) {
                    await self.inBackground()
                }
            }
            let foreground = Task { @MainActor in
                let name = UIApplication.willEnterForegroundNotification
                for await _ in NotificationCenter.default.notifications(named: name).map({ _ in }) { self.wake() }
            }
            await withTaskCancellationHandler {
                await background.value
                await foreground.value
            } onCancel: {
                background.cancel()
                foreground.cancel()
            }
        }

        @MainActor
        private func inBackground() async {
            // The system may give less time than that.
            let time = BackgroundTime { await self.suspend() }
            try? await Task.sleep(for: .seconds(20))
            if UIApplication.shared.applicationState == .background { await suspend() }
            time.end()
        }
    }

    /// The time that the system gives an app in the background. The system ends an app that does not give it back.
    @MainActor
    private final class BackgroundTime {
        private var id = UIBackgroundTaskIdentifier.invalid

        init(onExpiration: @escaping @MainActor () async -> Void) {
            id = UIApplication.shared.beginBackgroundTask {
                Task { @MainActor in
                    await onExpiration()
                    self.end()
                }
            }
        }

        func end() {
            UIApplication.shared.endBackgroundTask(id)
            id = .invalid
        }
    }
#endif
