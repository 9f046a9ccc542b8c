// Package keys owns the secrets of an installation: where they lie, how they
// are created and replaced, and the cryptographic operations that need them.
//
// # Folder
//
// [Init] creates the folder D, [Load] opens it and a [Rotation] replaces a signing
// key. Nothing else writes there.
//
//	D/                     0700
//	  owner.secret         0600  what the owner signs in with
//	  keys/                0700
//	    evidence.key       0600  Ed25519: signs events and exports, nothing else
//	    dispatch.key       0600  Ed25519: signs dispatch permits
//	    mac.key            0600  HMAC-SHA-256: step permit tokens, target references
//	    seal.key           0600  AES-256-GCM: values that rest encrypted in the ledger
//	    evidence.pub       0644  public halves, to be given to whoever verifies
//	    dispatch.pub       0644
//	    *.key.next         0600  the next evidence or dispatch key, while it is rotated
//
// The four keys are different keys, so that what one of them vouches for can
// never be taken for what another does. Whoever reads the secret files can do
// everything the control plane can; whoever can write them can also make its
// earlier evidence unverifiable.
//
// # Files
//
// A *.key file is one line: the tag countersign-NAME-key/1, a space, 32 bytes as
// base64url without padding, a line feed. For evidence and dispatch the bytes
// are the Ed25519 seed (RFC 8032), for mac and seal the key itself. The tag makes
// a file that was put in another's place unreadable. owner.secret is one line
// with 32 bytes as base64url.
//
// A *.pub file has one line a key, oldest first: the raw public key as
// base64url, and, on every line but the last, a space and the notAfter time of
// that key (RFC 3339, UTC, milliseconds). The last line is the key in use.
//
// Readers accept this one spelling and refuse everything else. Secret files that
// group or others can read or write are refused, and so is a folder that lacks
// one of its files.
package keys
