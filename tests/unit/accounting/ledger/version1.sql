BEGIN TRANSACTION;
CREATE TABLE ledger_client (
	window TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	PRIMARY KEY (window, identity)
)
 WITHOUT ROWID

;
INSERT INTO "ledger_client" VALUES('hospitals','east',3);
INSERT INTO "ledger_client" VALUES('hospitals','north',0);
INSERT INTO "ledger_client" VALUES('hospitals','south',1);
CREATE TABLE ledger_erased (
	window TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	leaf VARCHAR(32) NOT NULL, 
	PRIMARY KEY (window, position)
);
INSERT INTO "ledger_erased" VALUES('hospitals',2,'743e82833ce9af01d75ee6cf198c4b54');
CREATE TABLE ledger_info (
	id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	name VARCHAR(36) NOT NULL, 
	closed TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "ledger_info" VALUES(1,1,'b9383312-4d3d-49a9-9632-0604b553a388',NULL);
CREATE TABLE ledger_line (
	seq INTEGER NOT NULL, 
	time VARCHAR(32) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	window TEXT, 
	run TEXT, 
	round INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	request VARCHAR(64) NOT NULL, 
	body TEXT NOT NULL, 
	blob BLOB NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (run, kind, round, attempt)
);
INSERT INTO "ledger_line" VALUES(1,'2026-11-18T22:38:06.658+00:00','enrol','hospitals',NULL,0,0,'c3415c8fb69019f70a9646c53421eab3657123e7d91f81b8f8e88b66bbfcf82d','{"count":3,"identities":"c15fabfa70656d95efad5bacc0c4bb613c2353d981b833acb8bd577962e8bd50","start":0,"terms":{"orders":[32.0,16.0,64.0],"relation":"add-remove","unit":"client"}}',X'7801E3678000E601A21918191919188008081CC0A4029804124027F9303094C3B8C8B482428013038380C08A8530D17081152D022BC40556C00410B49797253F03C3D2A573D86162F797CE695D3A4760E91C9800825EB9521DC8B97245182E547B45D8E08AB02E92085CEAE2C51E20FBC50B37B8C89C176EC22FDC762389C0A5181959C06C26B8080303900D414862B4610200B40C1EC5','c9477e2d1a3c198c06797a05bf1ee1aeb6d8dc890b8d2142524ea04b58aff153');
INSERT INTO "ledger_line" VALUES(2,'2026-11-18T22:38:06.680+00:00','reserve','hospitals','first',0,0,'661d64e1a0602cd5b53924ac717dff3a092f5a47bb0385efa924f69f4b9d50f6','{"charged":3,"enrolled":3,"events":[{"z":1.5}],"everyone":true,"on_refusal":"stop","relation":"add-remove","rounds":2,"unit":"client","window":"hospitals"}',X'7801636540058C502E3A8D5025C0D0A1CE10C4C090C5C05082100500215F01F8','2adf5ec906fe4f58ee75eb5ab208a703185019cde1e2646ab48407f4e66cb4ae');
INSERT INTO "ledger_line" VALUES(3,'2026-11-18T22:38:06.690+00:00','round','hospitals','first',0,0,'2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd','{"n":1}',X'','d6b9e0f3221c3fe1d706e80f9d1e65316feb178387806caf0055a35762e9286e');
INSERT INTO "ledger_line" VALUES(4,'2026-11-18T22:38:06.701+00:00','finish','hospitals','first',0,0,'243353c8f3f3f8ee2050a308a1273c092abffd364f60a5502d5ceace98f992ae','{"rounds_done":1}',X'','4b0c0cd03c88fe75b0af215c225aee2ba4e0e38c4bca4c11860e76b7c13ec630');
INSERT INTO "ledger_line" VALUES(5,'2026-11-18T22:38:06.710+00:00','enrol','hospitals',NULL,0,0,'abbeaeae80dfc2de96e81884396748d21b1d9e3653a0b9ab41e04d0671d06b9a','{"count":1,"identities":"3d89008724254cb5ed1b952c6fffe37221bc7be13dbed8bb81019455424ba5cd","start":3,"terms":{"orders":[32.0,16.0,64.0],"relation":"add-remove","unit":"client"}}',X'7801E3678000C601A2191819191C18141818987DCA214E30709AB19081E13ECF7C08F73DFF77760606C31B49106E2D831D90F162D674087717432C9021D0AE0FE1323180FCC108262122B8480011DF0C99','aae430c5f40a63188caa06b144551b582c10e78e3c93dae7bbcb611f001305c5');
INSERT INTO "ledger_line" VALUES(6,'2026-11-18T22:38:06.717+00:00','reserve','hospitals','second',0,0,'46853f6f0d9392863d5ce01384062f8942a9953463443ee6943fba572b40d1df','{"charged":1,"enrolled":4,"events":[null],"everyone":false,"on_refusal":"skip","relation":"add-remove","rounds":2,"unit":"client","window":"hospitals"}',X'78016365800026023423549E01CC1080F0CE54A84318D56BA1D2F3A74219EBBAA10C86FF58190014E9081D','5d38176c5a2c614118c5494958a35e716b88214d43bab331ae71d44b6f9edb3b');
INSERT INTO "ledger_line" VALUES(7,'2026-11-18T22:38:06.725+00:00','charge','hospitals','open',0,0,'cc084fa4a9fcab72048efcde6722f3e78190f2a94aa3c7d65f7821eff9f9f4df','{"charged":1,"enrolled":4,"events":[null],"everyone":false,"on_refusal":"stop","relation":"add-remove","unit":"client","window":"hospitals"}',X'780163638000462269A83218B528D08581618A9726038354AF2903832C9F154C064A030060D3038B','e6cd6cb13e03a643bb53cadb5c92e180c07c911308c687a4930ff926f585600e');
INSERT INTO "ledger_line" VALUES(8,'2026-11-18T22:38:06.733+00:00','budget','hospitals',NULL,0,0,'','{"charged":1,"enrolled":4,"everyone":false}',X'780163658000460234549A819981C1818121C08981C1929F81411D28DC03C42C3069060029B101DE','d3121f9b1d8bd35b9db972ed833bce0a4fd541a2e0af2dbbc915ab2cb73b523e');
INSERT INTO "ledger_line" VALUES(9,'2026-11-18T22:38:06.741+00:00','erase','hospitals',NULL,0,0,'','{"charged":1,"enrolled":4,"everyone":false}',X'780163618000461C3454988109C640A3010200000A','9d80ae34ebee58b73d77729a7722e44350a6079cc3c5f51ceda45eb1f2b6e2d2');
CREATE TABLE ledger_snapshot (
	window TEXT NOT NULL, 
	seq INTEGER NOT NULL, 
	blob BLOB NOT NULL, 
	PRIMARY KEY (window)
);
CREATE INDEX ledger_line_of_window ON ledger_line (window, seq);
COMMIT;
