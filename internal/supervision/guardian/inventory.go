package guardian

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/machine"
)

// Inventory is everything that the workspace has registered.
type Inventory struct {
	machine.Progress
	Services  []Service `json:"services"`
	Guardians []string  `json:"guardians"` // ids, oldest first
}

// Service is one entry of the inventory. It is metadata: nothing is ever sent to its
// origin (H-202).
type Service struct {
	ID          string               `json:"serviceId"`
	Name        string               `json:"name"`
	Kind        string               `json:"kind"` // merchant, bank, broker or custom
	Environment string               `json:"environment"`
	Origin      *string              `json:"origin"`
	Description *evidence.Commitment `json:"description"`
	CreatedAt   evidence.Time        `json:"createdAt"`
}

// Problem returns the first member that is not one of a service and what is wrong with
// it, or "".
func (s *Service) Problem() (member, message string) {
	switch {
	case !named(s.Name, MaxName):
		return "name", "too long, empty or with control characters"
	case !slices.Contains(Services, s.Kind):
		return "kind", "unknown"
	case !slices.Contains(Environments, s.Environment):
		return "environment", "unknown"
	case s.Origin != nil && !named(*s.Origin, MaxOrigin):
		return "origin", "too long, empty or with control characters"
	case s.Description != nil && s.Description.Length > MaxDescription:
		return "description", "too long"
	}
	return "", ""
}

// Service returns the service with the id, or nil.
func (i *Inventory) Service(id string) *Service {
	at := slices.IndexFunc(i.Services, func(s Service) bool { return s.ID == id })
	if at < 0 {
		return nil
	}
	return &i.Services[at]
}

// Opened is inventory.opened, the beginning of the chain.
type Opened struct {
	Subject evidence.Subject `json:"subject"`
}

// EventType names the event.
func (Opened) EventType() string { return "inventory.opened" }

// Apply folds the event.
func (e Opened) Apply(f *machine.Fold[Inventory]) { f.Start(e.Subject, true) }

// Registered is service.registered.
type Registered struct {
	Service Service `json:"service"`
}

// EventType names the event.
func (Registered) EventType() string { return "service.registered" }

// Apply folds the event.
func (e Registered) Apply(f *machine.Fold[Inventory]) {
	s := f.State()
	member, message := e.Service.Problem()
	f.Must(member == "", "service", member+": "+message)
	f.Must(s.Service(e.Service.ID) == nil, "service-twice", "a service is registered once")
	f.Must(len(s.Services) < MaxServices, "service-limit", "more services than a workspace may have")
	f.Must(e.Service.CreatedAt == f.Now(), "service-time", "the service was not registered when the event says")
	s.Services = append(s.Services, e.Service)
}

// Listed is guardian.listed: a policy whose own chain begins in the same commit.
type Listed struct {
	GuardianID string `json:"guardianId"`
}

// EventType names the event.
func (Listed) EventType() string { return "guardian.listed" }

// Apply folds the event.
func (e Listed) Apply(f *machine.Fold[Inventory]) {
	s := f.State()
	f.Must(!slices.Contains(s.Guardians, e.GuardianID), "guardian-twice", "a policy is listed once")
	f.Must(len(s.Guardians) < MaxPolicies, "guardian-limit", "more policies than a workspace may have")
	s.Guardians = append(s.Guardians, e.GuardianID)
}
