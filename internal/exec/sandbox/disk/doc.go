// Package disk bounds what a run writes to the layer over its workspace, keeps
// room on the daemon's own disk, and clears away trees that programs made. Such
// a tree is hostile: names of any bytes, modes that shut its owner out, paths
// longer than any call takes, links to anywhere. Everything here goes from
// directory to directory by descriptors, follows no link and never enters another
// file system.
package disk
