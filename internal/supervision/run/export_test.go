package run

const ExecutionClaimed = executionClaimed

func (s *State) Use(grantID, operation string, n int64) { s.use(grantID, operation, n) }
