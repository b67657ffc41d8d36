#if !canImport(CryptoKit)
    import Foundation

    /// SHA-256 (FIPS 180-4) with CryptoKit's names, for tests on Linux. Apps use CryptoKit.
    struct SHA256 {
        private static let blockBytes = 64
        private static let roundConstants: [UInt32] = roots(1.0 / 3, count: 64)

        private var state = Self.roots(1.0 / 2, count: 8)
        private var rest: [UInt8] = []
        private var bytes: UInt64 = 0

        static func hash(data: Data) -> [UInt8] {
            var hash = SHA256()
            hash.update(data: data)
            return hash.finalize()
        }

        mutating func update(data: some Sequence<UInt8>) {
            for byte in data {
                rest.append(byte)
                if rest.count == Self.blockBytes { takeBlock() }
                bytes += 1
            }
        }

        func finalize() -> [UInt8] {
            var copy = self
            let bits = bytes * 8
            let zeros = (Self.blockBytes + 55 - rest.count) % Self.blockBytes
            copy.update(data: [0x80] + Array(repeating: 0, count: zeros) + Self.bigEndian(bits))
            return copy.state.flatMap(Self.bigEndian)
        }

        private mutating func takeBlock() {
            var words = stride(from: 0, to: Self.blockBytes, by: 4).map { at in
                rest[at..<at + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            }
            rest.removeAll(keepingCapacity: true)
            func rotated(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }
            for at in 16..<64 {
                let (early, late) = (words[at - 15], words[at - 2])
                let first = rotated(early, 7) ^ rotated(early, 18) ^ early >> 3
                let second = rotated(late, 17) ^ rotated(late, 19) ^ late >> 10
                words.append(words[at - 16] &+ first &+ words[at - 7] &+ second)
            }
            var s = state
            for at in 0..<64 {
                let mixed = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)
                let chosen = s[4] & s[5] ^ ~s[4] & s[6]
                let first = s[7] &+ mixed &+ chosen &+ Self.roundConstants[at] &+ words[at]
                let majority = s[0] & s[1] ^ s[0] & s[2] ^ s[1] & s[2]
                let second = (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) &+ majority
                s = [first &+ second, s[0], s[1], s[2], s[3] &+ first, s[4], s[5], s[6]]
            }
            state = zip(state, s).map { $0 &+ $1 }
        }

        /// The first 32 bits behind the point of the roots of the first primes.
        private static func roots(_ exponent: Double, count: Int) -> [UInt32] {
            let primes = (2...).lazy.filter { number in (2..<number).allSatisfy { number % $0 != 0 } }
            return primes.prefix(count).map { prime in
                let root = pow(Double(prime), exponent)
                return UInt32((root - root.rounded(.down)) * 4_294_967_296)
            }
        }

        private static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
            withUnsafeBytes(of: number.bigEndian) { Array($0) }
        }
    }
#endif
