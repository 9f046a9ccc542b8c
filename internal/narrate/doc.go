// Package narrate tells a person in words what a run is and what happened in it. It
// reads RunViews as the HTTP API sends them and decides nothing: a member that is
// missing is passed over, and an event that it has no words for is shown by its type.
// Whatever it writes can go to a terminal: characters that would steer one are left
// out.
package narrate
