package incident

import (
	"fmt"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
)

// Seen is what was looked up for a request beside the session.
type Seen struct {
	Form     bool       // of approve: the nonce is the one that the page's form was given for what is staged
	Record   *Execution // of execute: what the same key, digest and version came to before
	Conflict bool       // of execute: the key has a record of another digest or version
	Foreign  bool       // of execute: the key was given to another session
	Frozen   bool       // the workspace is frozen
	Partial  bool       // the execution fails in part; only a test's fault says so
}

// judge says why a request is refused in the session at now, or nil. An exact retry of an
// execution is not asked about here: it comes before everything (G-25).
func (s *Session) judge(operation, channel string, in Input, now evidence.Time, seen Seen) *authority.Denial {
	if in.MitigationID != nil {
		if _, known := MitigationOf(*in.MitigationID); !known {
			return deny(InvalidMitigation, "The catalog has no such mitigation.")
		}
	}
	switch operation {
	case Stage:
		return s.judgeStage(in)
	case Approve:
		return s.judgeApprove(channel, in, seen)
	case Execute:
		return s.judgeExecute(in, now, seen)
	case Reset:
		if *in.ExpectedVersion != s.Version {
			return deny(StaleReset, "The incident is not at that version.")
		}
	}
	return nil
}

// room is how many receipts a chain may have so that one more of this event fits. What can
// be asked for without end by whoever has the session leaves places to what only a person's
// approval brings about, and to the reset that leads out of a partial failure: an exact
// retry and an approval told again fewer than what changes nothing, what is staged or is
// refused. After a reset among the last nothing is staged again, so that no spared place is
// lost by it.
func room(event string) int64 {
	switch event {
	case EventApproved, EventExecuted, EventReset:
		return MaxReceipts
	case EventReplayed, EventRepeated:
		return MaxReceipts - LastReceipts
	}
	return MaxReceipts - SparedReceipts
}

// noRoom refuses a request whose receipt has no place, and says what else was wrong with it.
func noRoom(denial *authority.Denial) *authority.Denial {
	if denial != nil {
		return deny(ReceiptConflict, denial.Detail+" The session's chain has no place for the receipt of a refusal.")
	}
	return deny(ReceiptConflict, "The session's chain has no place for the receipt.")
}

func (s *Session) judgeStage(in Input) *authority.Denial {
	switch {
	case s.Status == RecoveryRequired:
		return deny(RecoveryFirst, "The last mitigation was applied in part; nothing is staged on top of it.")
	case *in.ExpectedVersion != s.Version:
		return deny(StaleState, "The incident is not at that version.")
	}
	return nil
}

func (s *Session) judgeApprove(channel string, in Input, seen Seen) *authority.Denial {
	switch {
	case channel != Human:
		return deny(ApprovalRequired, "An approval is given in the page's form and nowhere else.")
	case s.Staged == nil:
		return deny(NothingStaged, "No mitigation is staged.")
	case *in.ActionDigest != s.Staged.Digest || *in.ResourceVersion != s.Staged.Version:
		return deny(StaleApproval, "The request names another action than the staged one.")
	case s.Approval != nil && s.Approval.Consumed():
		return deny(ApprovalConsumed, "The approval was used; an approval is used once.")
	case !seen.Form:
		return deny(ApprovalRequired, "The approval did not come from the form that the page shows now.")
	case seen.Frozen:
		return frozen()
	}
	return nil
}

// judgeExecute holds all that an execution needs against the session, in the order of G-25
//
func (s *Session) judgeExecute(in Input, now evidence.Time, seen Seen) *authority.Denial {
	a := s.Approval
	switch {
	case seen.Conflict:
		return deny(IdempotencyConflict, "The key was used for another action.")
	case s.Staged == nil:
		return deny(NothingStaged, "No mitigation is staged.")
	case *in.ActionDigest != s.Staged.Digest || *in.ResourceVersion != s.Staged.Version:
		return deny(StaleExecution, "The request names another action than the staged one.")
	case a == nil:
		return deny(ApprovalRequired, "The staged action is not approved.")
	case seen.Foreign || a.Session != s.ID:
		return deny(IdentityMismatch, "The key was given to another session.")
	case a.Consumed():
		return deny(ApprovalConsumed, "The approval was used; an approval is used once.")
	case !a.Grant.Live(now):
		return deny(ApprovalExpired, fmt.Sprintf("The approval ended at %s.", a.Grant.ExpiresAt))
	case *in.IdempotencyKey != s.Staged.IdempotencyKey || !a.Grant.Covers(ToolOf(Execute)) || !a.Grant.Approves(s.Staged.ProposalID, s.Staged.Digest):
		return deny(StaleExecution, "The key does not belong to the staged action.")
	case seen.Frozen:
		return frozen()
	}
	return nil
}

func deny(reason, detail string) *authority.Denial {
	return &authority.Denial{Reason: reason, Detail: detail}
}

func frozen() *authority.Denial {
	return deny(authority.Frozen, "Nothing is approved or executed while the freeze lasts.")
}

// LeavesReceipt reports whether a refusal is told in the chain. Who named an old version to
// stage, approve or reset has lost to whoever changed it, and a loser leaves no receipt
// an execution that is refused leaves one whatever the reason (G-26), unless the
// chain has no place for it or its race was lost.
func LeavesReceipt(reason string) bool {
	switch reason {
	case StaleState, StaleApproval, StaleReset, ReceiptConflict, ExecutionConflict:
		return false
	}
	return true
}

// problem says what is wrong with the form of a request, naming the member, or "".
func (in Input) problem(operation string) string {
	takes := map[string][]string{
		Compare: {"mitigationId?"}, Stage: {"mitigationId", "expectedVersion"}, Approve: {"actionDigest", "resourceVersion"},
		Execute: {"actionDigest", "resourceVersion", "idempotencyKey"}, Reset: {"expectedVersion"},
	}[operation]
	given := map[string]string{}
	if in.MitigationID != nil {
		given["mitigationId"] = want(isWord(*in.MitigationID), "the id of a mitigation: lowercase letters, digits and hyphens, at most 64")
	}
	if in.ExpectedVersion != nil {
		given["expectedVersion"] = want(isVersion(*in.ExpectedVersion), "a resource version, from 1")
	}
	if in.ActionDigest != nil {
		given["actionDigest"] = want(canon.IsHash(*in.ActionDigest), "64 lowercase hex digits")
	}
	if in.ResourceVersion != nil {
		given["resourceVersion"] = want(isVersion(*in.ResourceVersion), "a resource version, from 1")
	}
	if in.IdempotencyKey != nil {
		given["idempotencyKey"] = want(isKey(*in.IdempotencyKey), "rr_ and 32 lowercase hex digits")
	}
	for _, name := range takes {
		name, optional := strings.CutSuffix(name, "?")
		problem, found := given[name]
		delete(given, name)
		switch {
		case !found && !optional:
			return name + ": required by " + operation
		case problem != "":
			return name + ": " + problem
		}
	}
	for _, name := range []string{"mitigationId", "expectedVersion", "actionDigest", "resourceVersion", "idempotencyKey"} {
		if _, left := given[name]; left {
			return name + ": not taken by " + operation
		}
	}
	return ""
}

func want(ok bool, what string) string {
	if ok {
		return ""
	}
	return "want " + what
}

func isVersion(n int64) bool { return n >= 1 && n <= 1<<53-1 }

func isWord(s string) bool {
	ok := s != "" && len(s) <= MaxWord && s[0] != '-'
	for _, c := range []byte(s) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	return ok
}

func isKey(s string) bool {
	hex, found := strings.CutPrefix(s, "rr_")
	return found && len(hex) == 32 && canon.IsHash(hex+hex)
}
