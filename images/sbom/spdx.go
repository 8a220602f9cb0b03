package sbom

// none is what SPDX calls that nobody looked, which is not that there is none.
const none = "NOASSERTION"

type document struct {
	Version     string     `json:"spdxVersion"`
	DataLicense string     `json:"dataLicense"`
	ID          string     `json:"SPDXID"`
	Name        string     `json:"name"`
	Namespace   string     `json:"documentNamespace"`
	Creation    creation   `json:"creationInfo"`
	Packages    []pkg      `json:"packages"`
	Files       []file     `json:"files,omitempty"`
	Relations   []relation `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	ID        string `json:"SPDXID"`
	Name      string `json:"name"`
	Version   string `json:"versionInfo,omitempty"`
	Location  string `json:"downloadLocation"`
	Analyzed  bool   `json:"filesAnalyzed"`
	License   string `json:"licenseConcluded"`
	Declared  string `json:"licenseDeclared"`
	Copyright string `json:"copyrightText"`
	Purpose   string `json:"primaryPackagePurpose,omitempty"`
	Source    string `json:"sourceInfo,omitempty"`
	Comment   string `json:"comment,omitempty"`
	Refs      []ref  `json:"externalRefs,omitempty"`
}

type ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type file struct {
	ID        string `json:"SPDXID"`
	Name      string `json:"fileName"`
	Sums      []sum  `json:"checksums"`
	License   string `json:"licenseConcluded"`
	Copyright string `json:"copyrightText"`
}

type sum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type relation struct {
	From string `json:"spdxElementId"`
	To   string `json:"relatedSpdxElement"`
	Kind string `json:"relationshipType"`
}
