// A sample client for Pigeonhole; docs/clients.md has the rules that it follows. Dart 3, web_socket_channel 3, uuid 4.

import 'dart:async';
import 'dart:convert';
import 'dart:math';

import 'package:uuid/uuid.dart';
import 'package:web_socket_channel/web_socket_channel.dart';

typedef Fields = Map<String, dynamic>;

// Not the time of day, which the user can set.
final _clock = Stopwatch()..start();
Duration _now() => _clock.elapsed;

class _Asked {
  _Asked(this.request);
  final Fields request;
  Duration? since = _now(); // null: put off, so no reply is owed
  Duration at = _now(); // time of the last `typing`
  int wait = 5; // seconds
}

class _Conversation {
  int? shown; // up to here; null: new on this device, and its start is not known yet
  int last = 0; // the server has messages up to here
  final early = <int, Fields>{}; // what came before its turn
  Duration askAt = Duration.zero; // not before this for what is missing
  int pause = 1; // seconds
  bool get isWhole => (shown ?? -1) >= last;
}

class Pigeonhole {
  Pigeonhole(this.url, this.me, this.token, {required this.show, required this.change, required this.tick, required this.failed}) {
    _run();
    _timer = Timer.periodic(const Duration(seconds: 1), (_) => _everySecond());
  }

  final Uri url; // wss://….amazonaws.com/v1?device_id=…, one id for each installation
  final String me;
  final Future<String> Function() token; // called before each connection
  final void Function(Fields message) show; // each message once, in order, then acknowledged; a deleted one is empty
  final void Function(Fields entry) change; // each change entry, in order; changes the message `target_seq`
  final void Function(String conversation, String user, int seq, bool read) tick; // what is read is delivered, too
  final void Function(String clientMsgId, String why) failed;

  late final Timer _timer;
  WebSocketChannel? _socket;
  bool _closed = false;
  int _attempt = 0;
  bool _isReplaced = false; // one connection too many: the next one is the user's to open
  Completer<void> _woken = Completer();
  Duration _heardAt = _now();
  Duration _pingAt = _now();

  // Keep these three, of the conversations what is `shown`, where a restart finds them.
  final _outbox = <String, Fields>{};
  final _conversations = <String, _Conversation>{};
  String? _since; // of the last chat list that this device has come up to, the newest time

  final _unacked = <String, int>{};
  final _reads = <String, int>{};
  final _asked = <String, _Asked>{}; // what has no reply yet, by its id
  final _page = <String, int>{}; // up to where the last drained page goes
  bool _isPaging = false; // another one follows, once this one is shown
  bool _again = false; // something may have become pending after the page that is on its way was read
  final _listed = <String>{};
  String? _newest; // what `_since` becomes once all that the chat list names is shown
  bool _isListed = false;

  void send(String to, String body) {
    final id = const Uuid().v4();
    // Half of an emoji, as `substring` leaves it, is no JSON to the server.
    final text = utf8.decode(utf8.encode(body));
    _outbox[id] = {'to': to, 'client_msg_id': id, 'kind': 'text', 'body': text};
    _sendNext();
  }

  void read(String conversation, int seq) => _reads[conversation] = max(seq, _reads[conversation] ?? 0);

  /// The app is in the foreground again, where timers have stood still.
  void wake() {
    _isReplaced = false;
    if (!_woken.isCompleted) _woken.complete();
    _pingAt = _now();
    _everySecond();
  }

  void close() {
    _closed = true;
    _timer.cancel();
    _socket?.sink.close();
  }

  Future<void> _run() async {
    while (!_closed) {
      try {
        final socket = WebSocketChannel.connect(url, protocols: ['pigeonhole.v1', 'bearer.${await token()}']);
        await socket.ready;
        _socket = socket;
        _opened();
        await for (final text in socket.stream) {
          _onFrame(jsonDecode(text as String) as Fields);
        }
      } catch (_) {
        // The next one may go better.
      }
      _socket = null;
      // Platforms don't say why a connection was not opened: after some failures the server counts as overloaded.
      final ceiling = min(_attempt < 6 ? 30000 : 300000, 500 * pow(2, min(_attempt++, 10)).toInt());
      final pause = Future<void>.delayed(Duration(milliseconds: Random().nextInt(ceiling)));
      _woken = Completer();
      await Future.any([if (!_isReplaced) pause, _woken.future]);
    }
  }

  void _opened() {
    _heardAt = _now();
    _pingAt = _heardAt + const Duration(minutes: 5);
    _asked.remove('inbox'); // The client reads the chat list again, after the drain.
    for (final it in _asked.values) {
      it.since = _heardAt;
      it.wait = 5;
      _say(it);
    }
    _drain();
    _sendNext();
  }

  void _everySecond() {
    final now = _now();
    _repair();
    if (!_asked.containsKey('ack') && _unacked.isNotEmpty) _ask('ack', 'ack', {'up_to': _marks()});
    _reads.forEach((id, seq) => _ask('read', 'read $id', {'conversation_id': id, 'seq': seq}));
    if (now >= _pingAt) {
      _pingAt = now + const Duration(minutes: 5);
      _ask('ping', 'ping');
    }
    for (final it in _asked.values.where((it) => (now - it.at).inSeconds >= it.wait)) {
      it.wait = min(2 * it.wait, 40);
      _say(it);
    }
    bool isLongAgo(Duration at) => (now - at).inSeconds >= 15;
    if (isLongAgo(_heardAt) && _asked.values.any((it) => isLongAgo(it.since ?? now))) _socket?.sink.close();
  }

  void _ask(String action, String id, [Fields fields = const {}]) {
    if (_asked.containsKey(id)) return;
    _say(_asked[id] = _Asked({...fields, 'action': action, 'id': id}));
  }

  void _say(_Asked it) {
    it.at = _now();
    it.since ??= it.at;
    _socket?.sink.add(jsonEncode(it.request));
  }

  void _sendNext() {
    if (_outbox.isNotEmpty) _ask('send', _outbox.keys.first, _outbox.values.first);
  }

  void _drain() {
    _again = _asked.containsKey('drain');
    if (_again) return;
    _isPaging = false;
    final ack = _marks();
    _ask('drain', 'drain', ack.isEmpty ? {} : {'ack': ack});
  }

  void _list(String? cursor) {
    final since = _since?.replaceFirst('Z', '+00:01'); // A minute before.
    _ask('inbox', 'inbox', {
      'limit': 50,
      if (cursor != null) 'cursor': cursor,
      if (since != null) 'since': since,
    });
  }

  void _repair() {
    if (_asked.containsKey('drain')) return; // Which is likely to bring what is missing.
    _conversations.forEach((id, it) {
      if (it.isWhole || _now() < it.askAt || it.shown == null && _outbox.isNotEmpty) return;
      final Fields side = it.shown == null ? {'limit': 1} : {'after_seq': it.shown, 'limit': 100};
      _ask('history', id, {...side, 'conversation_id': id});
    });
  }

  List<Fields> _marks() {
    final marks = [
      for (final it in _unacked.entries.take(25)) <String, dynamic>{'conversation_id': it.key, 'seq': it.value},
    ];
    for (final mark in marks) {
      _unacked.remove(mark['conversation_id']);
    }
    return marks;
  }

  void _onFrame(Fields frame) {
    _heardAt = _now();
    switch (frame['type']) {
      case 'messages.new':
        _objects(frame['messages']).forEach(_arrived);
      case 'receipt.delivered' || 'receipt.read':
        tick(frame['conversation_id'], frame['user_id'], frame['seq'], frame['type'] == 'receipt.read');
      case 'reply':
        final it = _asked.remove(frame['id']);
        if (it != null) _answered(it.request, frame['result'] as Fields);
      case 'connection.replaced':
        _isReplaced = true;
        _socket?.sink.close();
      case 'error':
        final error = frame['error'] as Fields;
        if (error['code'] == 'token_expired') {
          _socket?.sink.close();
          return; // Where each token is, it is dialled later each time.
        }
        _refused(frame['id'] as String?, error);
      default:
        return; // from API Gateway, or newer than this client: requests without a reply are repeated later
    }
    _attempt = 0;
    if (_isPaging && _page.entries.every((it) => (_conversations[it.key]?.shown ?? -1) >= it.value)) _drain();
    if (_isListed && _conversations.values.every((it) => it.isWhole)) {
      _since = _newest ?? _since;
      _isListed = false;
    }
  }

  void _answered(Fields request, Fields result) {
    switch (request['action']) {
      case 'drain':
        _drained(_objects(result['messages']), result['more'] as bool);
      case 'inbox':
        _onList(result);
      case 'history':
        _repaired(request['id'] as String, request.containsKey('after_seq'), result);
      case 'send':
        _outbox.remove(request['client_msg_id']);
        _arrived({...request, ...result, 'sender_id': me});
        _sendNext();
      case 'read':
        if (_reads[request['conversation_id']] == request['seq']) _reads.remove(request['conversation_id']);
      case 'ping':
        if (result['pending'] == true) _drain();
    }
  }

  void _refused(String? id, Fields error) {
    if (error['retryable'] == true) {
      final it = _asked[id];
      if (it == null) return;
      // Later each time, and not before the server wishes.
      it.at = _now();
      it.wait = max(min(2 * it.wait, 40), min(((error['retry_after_ms'] as int? ?? 0) / 1000).ceil(), 300));
      it.since = null;
      return;
    }
    final request = _asked.remove(id)?.request;
    switch (request?['action']) {
      case 'send':
        _outbox.remove(id);
        failed(id!, error['message'] as String);
        _sendNext();
      case 'drain':
        if (request!.containsKey('ack')) _drain(); // One entry of it was refused, the others stand.
      case 'history':
        _conversations.remove(id); // No longer a member: nothing of it will come.
        _page.remove(id);
      case 'read':
        _reads.remove(request!['conversation_id']);
    }
  }

  void _drained(List<Fields> messages, bool more) {
    for (final message in messages) {
      _arrived(message, drained: true);
    }
    if (_again) return _drain();
    _isPaging = more;
    _page.clear();
    for (final message in messages) {
      _page[message['conversation_id'] as String] = message['seq'] as int;
    }
    if (!more) {
      _listed.clear();
      _newest = null;
      _list(null);
    }
  }

  void _onList(Fields result) {
    for (final row in _objects(result['conversations'])) {
      final it = _conversation(row['conversation_id'] as String);
      it.last = max(it.last, row['last_seq'] as int);
      _begin(it, row['delivered_seq'] as int);
      _skipTo(it, row['first_seq'] as int? ?? 1);
      _listed.add(row['conversation_id'] as String);
      final at = row['last_message']?['sent_at'] as String?;
      if (at != null && at.compareTo(_newest ?? '') > 0) _newest = at;
    }
    // The first list can be long; what this device doesn't know need not be compared with anything.
    final isEnough = _since == null && _listed.containsAll(_conversations.keys);
    final cursor = result['next_cursor'] as String?;
    if (cursor == null || isEnough) {
      _isListed = true;
    } else {
      _list(cursor);
    }
    _repair();
  }

  void _repaired(String id, bool isAfter, Fields result) {
    final it = _conversation(id);
    final before = it.shown;
    it.last = max(it.last, result['last_seq'] as int);
    // A group's page has no mark of this user: the conversation starts with the first entry that came.
    final own = _objects(result['members']).where((member) => member['user_id'] == me);
    if (!isAfter) _begin(it, own.isEmpty ? it.last : own.first['delivered_seq'] as int);
    _skipTo(it, result['first_seq'] as int? ?? 1);
    if (isAfter) _objects(result['messages']).forEach(_arrived);
    final isProgress = it.shown != before;
    it.askAt = isProgress ? Duration.zero : _now() + Duration(seconds: it.pause);
    it.pause = isProgress ? 1 : min(2 * it.pause, 30);
    _repair();
  }

  void _arrived(Fields message, {bool drained = false}) {
    final id = message['conversation_id'] as String;
    final seq = message['seq'] as int;
    final it = _conversation(id);
    it.last = max(it.last, seq);
    if (seq > (it.shown ?? 0)) it.early[seq] = message;
    if (drained || seq == 1) _begin(it, seq - 1); // Another device has acknowledged the earlier entries.
    _showNext(it);
    final shown = it.shown;
    if (shown != null && shown >= seq) _unacked[id] = shown; // Again as well: the ack may have been lost.
  }

  /// Starts after this seq, or before the first entry that has come. An own message without a reply may be earlier,
  /// too.
  void _begin(_Conversation it, int after) {
    if (it.shown != null || _outbox.isNotEmpty) return;
    it.shown = it.early.keys.fold<int>(after, (first, seq) => min(first, seq - 1));
    _showNext(it);
  }

  /// Skips the entries of a group that this user may not see, after a (new) join: none of them is missing.
  void _skipTo(_Conversation it, int first) {
    final shown = it.shown;
    if (shown == null) return;
    it.shown = max(shown, first - 1);
    it.early.removeWhere((seq, _) => seq < first);
    _showNext(it);
  }

  void _showNext(_Conversation it) {
    for (var shown = it.shown; shown != null; shown = it.shown) {
      final message = it.early.remove(shown + 1);
      if (message == null) return;
      _messages.contains(message['kind']) ? show(message) : change(message);
      it.shown = shown + 1;
      _unacked[message['conversation_id'] as String] = shown + 1;
    }
  }

  /// With `media`, of which `body` is the caption. All else is silent.
  static const _messages = {'text', 'image', 'file', 'voice'};

  _Conversation _conversation(String id) => _conversations.putIfAbsent(id, _Conversation.new);

  List<Fields> _objects(dynamic list) => (list as List<dynamic>).cast<Fields>();
}
