// Reports of the system. Only compiled on Apple's systems.

import Foundation

#if canImport(Network)
    import Network

    /// Wakes the client when the device has another network.
    final class NetworkMonitor: Sendable {
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
            let center = NotificationCenter.default
            let background = Task { @MainActor in
                let times = center.notifications(named: UIApplication.didEnterBackgroundNotification).map { _ in }
                for await _ in times { await self.inBackground() }
            }
            let foreground = Task { @MainActor in
                let times = center.notifications(named: UIApplication.willEnterForegroundNotification).map { _ in }
                for await _ in times { self.wake() }
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
            let app = UIApplication.shared
            var time = UIBackgroundTaskIdentifier.invalid
            let end = { @MainActor in
                app.endBackgroundTask(time)
                time = .invalid
            }
            time = app.beginBackgroundTask {
                // The system gives less time than that.
                Task { @MainActor in
                    await self.suspend()
                    end()
                }
            }
            try? await Task.sleep(for: .seconds(20))
            if app.applicationState == .background { await suspend() }
            end()
        }
    }
#endif
