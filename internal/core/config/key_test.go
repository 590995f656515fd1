package config

import "reflect"

// keyValue returns the field of a key.
func keyValue(c *Config, name string) reflect.Value {
	for _, k := range keysOf(c) {
		if k.name == name {
			return k.value
		}
	}
	return reflect.Value{}
}

// envNames maps each key to the variable that overrides it; keys that only
// the file can set are absent.
func envNames() map[string]string {
	names := make(map[string]string)
	for _, k := range keysOf(&Config{}) {
		if k.env != "" {
			names[k.name] = k.env
		}
	}
	return names
}
