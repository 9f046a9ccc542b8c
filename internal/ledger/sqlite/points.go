package sqlite

// Fail points in the order of a commit. At each one Options.Fault is called and
// may return an error or end the process.
const (
	beforeBegin      = "before BEGIN"
	afterBegin       = "after BEGIN"
	afterSavepoint   = "after SAVEPOINT"
	afterFreeze      = "after freeze check"
	afterInsert      = "after subject insert"
	afterUpdate      = "after subject update"
	afterGuard       = "after guard check"
	afterAttributes  = "after attributes"
	afterEvent       = "after event insert"
	afterText        = "after text insert"
	afterSeal        = "after sealed upsert"
	afterUnseal      = "after sealed delete"
	afterRecord      = "after idempotency insert"
	afterPermit      = "after permit insert"
	afterCredential  = "after credential insert"
	afterRevoke      = "after credential delete"
	afterRelease     = "after RELEASE"
	afterRollback    = "after ROLLBACK TO"
	beforeCommit     = "before COMMIT"
	afterCommitPoint = "after COMMIT"
	beforeAnswer     = "before answer"
)

// Points are the names of all fail points of a commit, in its order. "before
// BEGIN" is reached once a transaction before anything is sent.
var Points = []string{
	beforeBegin, afterBegin, afterSavepoint, afterFreeze, afterInsert, afterUpdate, afterGuard, afterAttributes,
	afterEvent, afterText, afterSeal, afterUnseal, afterRecord, afterPermit, afterCredential, afterRevoke,
	afterRelease, afterRollback, beforeCommit, afterCommitPoint, beforeAnswer,
}

// DurablePoints are the points at which the group is stored already.
var DurablePoints = []string{afterCommitPoint, beforeAnswer}
