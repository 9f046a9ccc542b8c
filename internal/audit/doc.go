// Package audit verifies an export completely: its integrity, the store's
// receipts in it, and the lawfulness of every transition. [Verify] reads the
// export once and answers each of the three separately; a chain can be signed
// in every event and still tell of something that was never permitted.
//
//   - Integrity is [evidence.Verify] against keys that were trusted before.
//   - Lawfulness is a replay of the state machine of the chain's kind: a run
//     (chain.Replay), a guardian policy or the inventory (guardian.NewReplay), the
//     freezes of a workspace (freeze.Replay), a context turn, a call outside one or a
//     bridge receipt (turn.NewReplay), a project, a client or a gap (project.NewReplay),
//     the session of an incident (incident.Replay). A chain of another kind or machine is
//     not replayed: its lawfulness is not proved, and the export does not pass.
//   - Receipts: every signed receipt that the chain carries verifies under a
//     store key, answers exactly the dispatch that the chain recorded before it,
//     and says the same as the execution's receipt does about result, amount and
//     order.
//
// Store keys are those that run.created pinned unless others are given. Then the
// control plane attests both the receipts and the key they verify under, so a
// control plane that lies can have made them; [Options.StoreKeys] ends that.
package audit
