// Package dpapi protects small texts for one user of Windows, by the system's Data
// Protection API.
package dpapi
