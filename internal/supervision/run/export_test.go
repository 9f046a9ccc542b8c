package run

import "countersign/internal/authority"

// What the tests of the machine look into.
var (
	ClaimOf         = claimOf
	ClaimOfReported = claimOfReported
)

const ExecutionClaimed = executionClaimed

func (s *State) Use(grantID, operation string, n int64) { s.use(grantID, operation, n) }

func (s *State) GrantFor(operation string) *authority.Grant { return s.grantFor(operation) }
