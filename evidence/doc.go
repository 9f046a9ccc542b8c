// Package evidence is the record that countersign leaves of everything it
// decides, and the means to check that record without trusting countersign.
//
// A subject (a supervised run, say) has one chain of events. Each [Event] names
// what happened, hashes what it says together with the hash of the event before
// it, and is signed with an Ed25519 key. Changing, dropping or moving an event
// breaks the chain from there on; making it whole again takes the key.
//
// # Checking an export
//
// An export is one file with one chain. To check it you need the issuer's
// public keys from somewhere else than the file:
//
//	keys, err := evidence.ParseKeys(pub)         // the bytes of evidence.pub
//	report, err := evidence.Verify(file, keys, evidence.Options{})
//	if err != nil { … }                          // not an export, or not readable
//	for _, r := range report.Results { … }       // each check by itself, with the events that fail it
//	report.OK()
//
// [Verify] reads once and keeps no events, so that the size of a file does not
// matter. Options.Head takes a head known from elsewhere ([ParseLink] reads
// SEQ:HASH); Options.Each is given every event in order in the same pass.
// Signatures are accepted as crypto/ed25519 does unless Options.Batch brings
// another rule; the report names it.
// [Fork] compares two exports of one subject. [ReadExport] reads an export into
// memory, for looking at it.
//
// # Writing
//
// [Seal] turns drafts into the next events of a chain. [NewText] salts a free
// text, whose [Commitment] enters the data in its place; salt and text are kept
// beside the chain and can be erased. [WriteExport] streams a chain and the
// texts that still exist.
//
// # Format
//
// Everything is RFC 8785 canonical JSON whose numbers are integers of at most
// 2^53-1 in magnitude, without U+0000, lone surrogates or repeated members, and
// nested at most 32 levels an event.
//
//   - hash: lowercase hex SHA-256 of the object with exactly the members id,
//     runId, sequence, type, data, timestamp, previousHash.
//   - signature: Ed25519 (RFC 8032) over the 32 bytes of hash, as base64url
//     without padding in its one strict spelling (RFC 4648 section 5).
//   - keyId: the first 16 hex digits of the SHA-256 of the raw public key.
//   - sequence from 1 without a gap; previousHash of the first event is 64
//     zeros; timestamp is RFC 3339 in UTC with milliseconds; id is a UUIDv7.
//   - the data of the first event has the member subject, a [Subject].
//   - a free text is {"length":BYTES,"text":HASH} with HASH the lowercase hex
//     SHA-256 of 16 salt bytes and the UTF-8 text.
//   - an export is one object and one newline: count, events, exportedAt,
//     format, head, keyId, publicKey, signature, subject, texts. signature is
//     Ed25519 over the SHA-256 of the object with the members count, exportedAt,
//     format, head, keyId, publicKey, subject; head binds the events. texts
//     maps a HASH to {"salt":BASE64URL,"text":TEXT}.
//
// Any other spelling is refused. vectors/evidence holds cases for other
// languages.
//
// # What a verified export proves
//
// The holder of a trusted key signed exactly these events in exactly this
// order, and said at exportedAt that there were no others.
//
// # What it does not prove
//
// That the events are true, that an explanation is honest, that an authority
// still holds, or when a thing happened: timestamps are those of
// recording. Nor that nothing came later, that no other subject was left
// out, or that there is no second history: a holder of the key can fork a chain
// undetected until heads are anchored elsewhere. [Report] carries these
// sentences.
//
// Nor that the transitions are lawful. This package knows no state machine; a
// replay that is fed by Options.Each does.
//
// The package does no I/O of its own and reads no clock. All functions are safe
// for concurrent use.
package evidence
