package config

import "reflect"

// keyValue finds the field of a key.
func keyValue(c *Config, name string) reflect.Value {
	for _, k := range keysOf(c) {
		if k.name == name {
			return k.value
		}
	}
	return reflect.Value{}
}
