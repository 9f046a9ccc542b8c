// Package dispatch is all a shop needs to take orders from countersign, and all
// countersign needs to send one.
//
// A control plane that wants one effect at a shop signs a [Permit] over the
// exact request: audience, session, method, target and body hash, for at most 30
// seconds. The shop checks it ([Verifier.Verify]), and spends it in the very
// transaction of the effect ([Ledger.Spend]). The answer carries a [Receipt],
// signed by the shop, stored beside the effect. A request that was lost on the
// way is settled by asking the shop to close its permit ([Ledger.Close]): the
// shop either shows the receipt it stored, or makes sure that the permit can no
// longer have an effect and signs that.
//
// # A shop
//
// Run [Schema] once in the database that holds the orders. Then a mutation is
//
//	body, err := dispatch.ReadBody(r)                // at most MaxBody bytes
//	permit, err := verifier.Verify(r, body)          // else AnswerError(err).Write(w)
//	err = dispatch.Decode(body, &order)              // strict JSON
//	tx, err := db.BeginTx(ctx, nil); defer tx.Rollback()
//	answer, err := ledger.Spend(ctx, tx, permit, func() (dispatch.Effect, error) { … })
//	err = tx.Commit()
//	answer.Write(w)
//
// The function given to Spend changes the shop's tables through the same tx. It
// returns the [Effect], or [Refuse] when the shop says no: then its changes are
// undone, and the refusal itself is committed with a signed receipt. Any other
// error undoes everything, the permit stays unspent, and the caller rolls back.
// Answer only after Commit has returned nil; when Commit fails answer 500 without
// a receipt. The package example is a complete shop.
//
// A shop that binds sessions to cookies compares the cookie's session with
// Permit.Session itself and answers [PermitError] with [SessionMismatch].
//
// # The sender
//
// [Client.Send] sends a request once and never again. Whatever comes back, only a
// receipt that [ParseReceipt] accepts and that [Receipt.Answers] the permit
// decides what happened; every other answer leaves the effect unknown, except
// [ErrNotSent], where no byte of the request left: there was no connection, or
// Request.NotAfter had passed.
//
// A probe is POST [ClosePath] with [CloseBody] of the permit in doubt, under a
// permit of its own: own jti, htu and bh; iss, aud, sid, pid and ed are those of
// the permit in doubt, because the receipt that closes it repeats them. A shop that
// prunes its ledger, and so cannot tell an old permit from one that never came, does
// not close it: it answers 410 problem+json with the reasonCode BEYOND_RETENTION and
// no receipt, and the effect stays unknown.
//
// # Formats
//
// Permit and receipt are compact JWS (RFC 7515) with exactly the header members
// alg "EdDSA" (RFC 8037), kid and typ. Header and payload are RFC 8785 canonical
// JSON with all members present and no others, base64url has one spelling, so a
// token that is changed in any byte does not verify, and a token that parses
// encodes to the same bytes again. kid is the first 16 hex digits of the SHA-256
// of the raw public key. vectors/dispatch holds cases for other languages.
//
// # What it does not prove
//
// A receipt is the shop's word, signed with the shop's key. Permit ledger and
// control plane are two databases; between sending and receipt the effect is
// unknown. Spend is as durable as the shop's own commits.
package dispatch
