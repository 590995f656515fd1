// Package dpapi encrypts small texts for one Windows user by the Data Protection API.
package dpapi
