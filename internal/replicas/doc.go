// Package replicas shows that several server processes on one PostgreSQL are one control
// plane: nothing that one of them remembers, hears too late or takes down with it decides
// anything. Its tests run package replica's processes, and ask as clients do.
package replicas
