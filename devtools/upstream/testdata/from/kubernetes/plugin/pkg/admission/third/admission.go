package third

// PluginName is the name of the plugin.
const PluginName = "Third"
